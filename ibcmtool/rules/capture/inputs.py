"""C01-C04, C07: what the capture itself lacks, so that nobody takes a gap for a fault."""

from __future__ import annotations

from typing import Final

from ibcmtool.connections.codes import TIMEOUT
from ibcmtool.formatting import count, duration
from ibcmtool.messages import Rej
from ibcmtool.model import Connection, Event
from ibcmtool.rules.api import CaptureEnd, Context, Verdict, Verdicts, rule
from ibcmtool.rules.conditions import matches
from ibcmtool.values import Duration

RARE: Final = 1000  # one packet in so many
NOTEWORTHY_OFFSET: Final = 1_000_000  # ns; smaller ones are what synchronised hosts show

C01 = rule(
    "C01",
    "input-incomplete",
    "The input is cut or damaged",
    severity="warning",
    clause="pcap, pcapng and ERF record formats",
    explanation="An input that ends inside a record, or whose records stop making sense, is used up to that point;"
    " what came after is unknown (warning). Frames that the snap length cut are used as far as they go; fields beyond"
    " the cut are unknown, and timers that need them are assumed (information).",
    false_positives="A capture that is still being written ends inside a record as well.",
    advice="Stop the capture before copying its file, then copy it again.",
)


@C01.on_capture_end
def input_incomplete(end: CaptureEnd, context: Context) -> Verdicts:
    for file, info in enumerate(end.inputs):
        if info.truncated:
            yield Verdict(
                f"{info.path}: {info.damage}. Everything before that was used ({info.frames} frames,"
                f" {info.cm_messages} with CM messages).",
                {"frames": info.frames, "cm_messages": info.cm_messages},
                # The last whole frame: the damage begins right behind it.
                frames=((file, info.frames),) if info.frames else (),
                time=info.last_time,
            )
        if info.cut_messages:
            yield Verdict(
                f"{info.path}: {info.cut_messages} of {info.cm_messages} CM messages are shorter than on the wire (snap"
                " length); fields beyond the cut are unknown.",
                {"cut_messages": info.cut_messages, "cm_messages": info.cm_messages},
                severity="info",
                time=info.first_time,
                advice="Capture again without a snap length (tcpdump -s 0): CM messages take up to 400 bytes.",
            )


C02 = rule(
    "C02",
    "begins-inside",
    "The beginning of a connection is not in the capture",
    severity="info",
    clause="no specification clause: a limit of the capture",
    explanation="Messages named a connection whose REQ was not captured: the capture began later, lost it, or the"
    " connection never existed and the message was a mistake. Its addresses, QPNs and timers are known only in part,"
    " so most rules say nothing about it or lower their confidence.",
    false_positives="None: it states what is missing, not who is wrong.",
    advice="Start the capture before the connections, or ignore the connection.",
)


@C02.on_event("ENDED", history=matches("[^Q]*"))
def begins_inside(connection: Connection, event: Event, context: Context) -> Verdicts:
    if connection.outcome != "partial" or connection.request is not None or not connection.steps:
        return
    first = connection.steps[0].message
    after, fields = first.time - context.start, first.fields
    unheard = isinstance(fields, Rej) and fields.reason == TIMEOUT and fields.remote_comm_id == 0
    since = "the first CM message of the capture" if after == 0 else f"{duration(after)} after the first CM message"
    yield Verdict(
        f"No REQ of this connection was captured; its first message here: {first.type}, {since}."
        + (
            " It gives up an attempt that nobody answered (REJ 4, no id of the peer): the REQs were lost before the"
            " capture point, or sent before the capture began."
            if unheard
            else ""
        ),
        {"first_message": first.type, "after_start": Duration(after), "messages": len(connection.steps)},
        steps=connection.steps,
        advice="Capture at the requester: if it sends its REQs, they are lost on the way here." if unheard else None,
    )


C03 = rule(
    "C03",
    "clocks-apart",
    "The clocks of two inputs differ",
    severity="info",
    clause="no specification clause: a limit of the capture",
    explanation="Packets that both inputs captured (same BTH PSN, same MAD) carry times that differ by more than the"
    " path takes. The difference, with the path delay of both directions averaged out, was taken off all times of the"
    " later input, so that states and timers are right across both. Inputs without a common packet may show an"
    " exchange in turn: then no answer may come before its question. Files of a ring have one clock. Nothing is said"
    " of a clock whose offset was given (--clock-offset).",
    false_positives="A path slower in one direction than in the other looks like an offset of half the difference.",
    advice="Nothing to do for this analysis; set both clocks by NTP or PTP before comparing logs.",
)


@C03.on_capture_end
def clocks_apart(end: CaptureEnd, context: Context) -> Verdicts:
    for info in end.inputs:
        apart = info.clock_offset - end.inputs[0].clock_offset
        if abs(apart) < NOTEWORTHY_OFFSET or info.clock_given:
            continue
        way, shared = "ahead of" if apart > 0 else "behind", info.shared_packets
        proof = f"{shared} packets seen in both" if shared else "exchanges seen in turn, or the file it continues"
        yield Verdict(
            f"The clock of {info.path} is {duration(abs(apart))} {way} that of {end.inputs[0].path}, by {proof}; its"
            " times were shifted by that.",
            {"offset": Duration(apart), "shared_packets": shared},
            time=info.first_time,
        )


C04 = rule(
    "C04",
    "history-full",
    "More connections ended at once than are remembered",
    severity="info",
    clause="no specification clause: a bound of the memory that a storm of short connections takes",
    explanation="A connection that is over is remembered until its timewait and late repetitions are past, but not"
    " more than 8192 of them at a time. The oldest were forgotten earlier: a QPN that one of them used may have been"
    " reused in timewait without a finding (T01, T02, S05), and a late repetition may stand as a connection of its own"
    " (C02).",
    false_positives="None: it states what was not looked at.",
    advice="Choose a shorter part of the capture, or one of fewer hosts, to have every reuse checked.",
)


@C04.on_capture_end
def history_full(end: CaptureEnd, context: Context) -> Verdicts:
    if end.forgotten:
        yield Verdict(
            f"{end.forgotten:,} connections were forgotten before their timewait and late repetitions were surely past:"
            " more ended at once than are remembered.",
            {"forgotten": end.forgotten},
        )


C07 = rule(
    "C07",
    "packets-dropped",
    "The capture lost packets, by its own count",
    severity="warning",
    clause="pcapng interface statistics (isb_ifdrop, isb_osdrop); libpcap's and the kernel's counts of live sources",
    explanation="Whoever captured could not keep up, and counted what was lost. CM messages may be among it, so a"
    " message that seems to be missing, an answer that never came or a repetition without cause may be a loss of this"
    " capture alone. Information where less than one packet in 1000 was lost. Packets that are no CM messages are"
    " counted, too.",
    false_positives="None: it states what was counted. Some programs write the same loss into both counters.",
    advice="Capture again with a filter (udp port 4791) or a larger buffer (tcpdump -B), and write to a faster disk.",
)


@C07.on_capture_end
def packets_dropped(end: CaptureEnd, context: Context) -> Verdicts:
    for info in end.inputs:
        if info.dropped:
            yield Verdict(
                f"{info.path}: {count(info.dropped, 'packet')} lost before they could be captured, beside"
                f" {count(info.frames, 'frame')} that were. What seems to be missing here may be among them.",
                {"dropped": info.dropped, "frames": info.frames},
                severity="info" if info.dropped * RARE < info.frames else None,
                time=info.last_time,
            )
