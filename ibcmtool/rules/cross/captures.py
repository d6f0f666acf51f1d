"""X04, X06: what captures lack, and in which order they stand, as far as their CM messages tell."""

from __future__ import annotations

from typing import Final

from ibcmtool.connections.traces import DISORDER
from ibcmtool.evidence import proved, unopposed, weakened
from ibcmtool.formatting import address, count, duration, number
from ibcmtool.rules.api import CaptureEnd, Context, Verdict, Verdicts, rule
from ibcmtool.rules.steps import NAMED, addresses
from ibcmtool.values import Duration

ENOUGH_ANSWERS: Final = 2  # to a silent address: one may have come just after the capture began
ENOUGH_EXCHANGES: Final = 3  # that show one direction, and their share in tenths
NOTEWORTHY_TENTHS: Final = 1
FRAMES_SHOWN: Final = 8

NOTEWORTHY_GAPS: Final = 16  # packets missing, and their share in tenths
GAPS_TENTHS: Final = 2

X04 = rule(
    "X04",
    "capture-incomplete",
    "The capture lacks a direction, or packets",
    severity="info",
    clause="no specification clause: a limit of the capture",
    explanation="An RTU answers a REP, a DREP a DREQ: where the answers are in the capture and nothing of what they"
    " answer is, only one direction was recorded. Reported once, when an address never speaks although others answer"
    " it, or when one exchange in ten shows one direction only. Everything that rests on a missing answer (timeouts,"
    " R07, H18, S12) may be an effect of it. The second sign: QP1 numbers its packets. If a host at whose RoCE port"
    " the capture was made skips numbers, CM messages of it are missing, or it has other management traffic.",
    false_positives="A host that is down answers nobody: silence alone is no sign. Gaps in the numbers are a hint only"
    " (possible): a capture filter by address leaves such gaps, and on InfiniBand they are ordinary (queries to the"
    " subnet administrator), so they are not reported there.",
    advice="Mirror both directions of the port, or capture on both hosts and analyze the files together; for gaps,"
    " look at the drop counters of the capture tool (ibdump reports none).",
)


@X04.on_capture_end
def direction_missing(end: CaptureEnd, context: Context) -> Verdicts:
    known = context.completeness
    heard = context.traces.speakers()
    never = {
        silent: found
        for silent, found in known.silent.items()
        if found.answers >= ENOUGH_ANSWERS and not any(source.matches(silent) for source in heard)
    }
    certain = known.surely_one_sided
    often = certain >= ENOUGH_EXCHANGES and certain * 10 >= known.exchanges * NOTEWORTHY_TENTHS
    if not (never or often):
        return
    shown = never or known.silent
    names = sorted(shown, key=lambda silent: -shown[silent].exchanges)
    share = f"in {number(known.one_sided)} of {count(known.exchanges, 'connection')}"
    if never:
        sentence = f"Nothing that {addresses(names)} sent was captured, although others answer it: {share} only one"
        sentence += " direction is there."
    else:
        sentence = f"One direction is missing {share}, mostly what {addresses(names)} sent; elsewhere it is there."
    yield Verdict(
        sentence,
        {
            "one_sided": known.one_sided,
            "connections": known.exchanges,
            "missing": {address(name): shown[name].exchanges for name in names[:FRAMES_SHOWN]},
        },
        (proved("complete") if never else unopposed("complete"),),
        frames=tuple(frame for name in names[:NAMED] for frame in shown[name].frames)[:FRAMES_SHOWN],
    )


@X04.on_capture_end
def numbers_skipped(end: CaptureEnd, context: Context) -> Verdicts:
    """Numbers that a host skipped, in an input that was captured at its port."""
    for file, known in context.traces.inputs.items():
        for source, (transport, seen, missing) in known.counts().items():
            if context.ports.shared.get(file) != (source,) or transport == "InfiniBand":
                continue
            sent = seen + missing
            if missing >= NOTEWORTHY_GAPS and missing * 10 >= sent * GAPS_TENTHS:
                yield Verdict(
                    f"{end.inputs[file].path}: all connections are those of {address(source)}, which numbered"
                    f" {number(sent)} QP1 packets, {number(missing)} of which are not here: its other management"
                    " traffic, what a filter left out, or packets that the capture lost.",
                    {"seen": seen, "missing": missing, "address": address(source)},
                    (weakened("complete"),),
                )


X06 = rule(
    "X06",
    "time-goes-back",
    "The frames of an input are not in the order of their times",
    severity="info",
    clause="no specification clause: a limit of the capture",
    explanation="A CM message carries an earlier time than one that stands before it in the same input, by more than"
    " the 50 ms of disorder that several receive queues or a mirror port cause. Captures were put one behind the other"
    " without sorting, or the clock was set while it ran. States and timers around that place may be wrong. A single"
    " frame that is dated far ahead of both its neighbours moves no clock: it is taken as of the frame before it.",
    false_positives="None: it states what the times say.",
    advice="Sort the file by time (reordercap IN OUT, or mergecap of the parts) and analyze it again.",
)


@X06.on_capture_end
def time_goes_back(end: CaptureEnd, context: Context) -> Verdicts:
    for file, known in sorted(context.traces.inputs.items()):
        if known.ahead is not None:
            frame, ahead, time = known.ahead
            yield Verdict(
                f"{end.inputs[file].path}: frame {frame} is dated {duration(ahead)} ahead of the frames around it, and"
                f" taken as of the frame before it{f'; {known.strays} such frames' if known.strays > 1 else ''}.",
                {"ahead": Duration(ahead), "frames": known.strays},
                frames=((file, frame),),
                time=time,
                advice="Look at the clock of the machine that captured: another frame shows what time it was.",
            )
        if known.largest > DISORDER:
            yield Verdict(
                f"{end.inputs[file].path}: frame {known.frame} is {duration(known.largest)} earlier than one before it;"
                f" in all {count(known.steps, 'CM message')} out of order by more than {duration(DISORDER)}.",
                {"largest": Duration(known.largest), "messages": known.steps},
                frames=((file, known.frame),),
                time=known.time,
            )
