"""Worlds and counts for people."""

from __future__ import annotations

from collections import defaultdict

from conversation import FIRST_DAY, SECOND

from ibcmtool.analysis import Finding
from worlds.network import Packet
from worlds.tally import Tally
from worlds.world import World

MOST_SHOWN = 4  # failures of one code


def table(tally: Tally, only: str | None = None) -> str:
    """Per code: how many findings are true and false, by severity and confidence, precision and recall."""
    lines = ["code  precision  recall      true  false  over  by severity and confidence (true/false)"]
    codes = {key[0] for key in (*tally.true, *tally.false)} | set(tally.expected) | set(tally.overclaimed)
    for code in sorted(codes):
        true = sum(count for key, count in tally.true.items() if key[0] == code)
        false = sum(count for key, count in tally.false.items() if key[0] == code)
        over = tally.overclaimed[code]
        precision = f"{true / (true + false + over):9.3f}" if true + false + over else "        -"
        expected, missed = tally.expected[code], tally.missed[code]
        recall = f"{(expected - missed) / expected:.3f}/{expected:<4}" if expected else "-         "
        parts = [
            f"{key[1]} {key[2]} {tally.true[key]}/{tally.false[key]}"
            for key in sorted({*tally.true, *tally.false})
            if key[0] == code
        ]
        lines.append(f"{code:5} {precision}  {recall} {true:6} {false:6} {over:5}  {', '.join(parts)}")
    shown: defaultdict[tuple[str, str, str], list[str]] = defaultdict(list)
    for failure in tally.failures:
        kind = failure.code, failure.severity, failure.kind
        text = f"  --seed {failure.seed} --kind {failure.kind} {failure.confidence}: {failure.text[:230]}"
        shown[kind].append(text)
    for kind, texts in sorted(shown.items()):
        if only in (None, kind[0]):
            lines += ["", f"{' '.join(kind)}: {len(texts)}", *texts[:MOST_SHOWN]]
    return "\n".join(lines)


def ladder(world: World) -> str:
    """One world: what happens in it, every packet with its fate, the deeds, and the findings with their verdicts."""
    lines = [
        f"seed {world.seed}, kind {world.kind}, {world.policy}, {world.habits}",
        f"network {world.network.conditions}",
    ]
    lines += [f"left out {world.left_out}, mended {world.mended}"] if world.left_out or world.mended else []
    for tap, flaws in zip(world.taps, world.flaws, strict=True):
        place = "between the hosts" if tap.place is None else f"at host {tap.place.number}"
        lines.append(f"capture {tap.file} {place}: {flaws}")
    lines += ["", "What is planned:", *world.what, "", "Packets (frames: where they were captured):"]
    frames: defaultdict[Packet, list[str]] = defaultdict(list)
    for tap in world.taps:
        for number, packet in tap.shown.items():
            frames[packet].append(f"{tap.file}:{number}")
    lines += [_packet_line(packet, frames[packet]) for packet in sorted(world.network.packets, key=lambda p: p.sent)]
    lines += ["", "Deeds:"]
    lines += [
        f"{deed.time:10.4f} {deed.code} host {deed.host.number}: {deed.note}"
        + (f" [{len(deed.packets)} packets, first sent {deed.packets[0].sent:.4f}]" if deed.packets else "")
        for deed in sorted(world.truth.deeds, key=lambda deed: deed.time)
    ]
    lines += ["", "Findings:"]
    judgements, missed = world.judge()
    verdicts = {judgement.finding.message: judgement.verdict for judgement in judgements}
    lines += [_finding_line(finding, verdicts.get(finding.message, "-")) for finding in world.findings()]
    lines += [f"missed: {deed.code} {deed.note}" for deed in missed]
    return "\n".join(lines)


def _packet_line(packet: Packet, frames: list[str]) -> str:
    host, boot = packet.sender.host.number, packet.sender.number
    what = packet.kind
    fields = packet.fields
    for name in ("local_comm_id", "remote_comm_id", "local_qpn", "remote_qpn", "reason", "message_rejected"):
        value = getattr(fields, name, None)
        if value:
            what += f" {name.replace('_comm_id', '')}=0x{value:x}"
    again = " (again)" if packet.first is not packet else ""
    arrived = ",".join(f"{time:.4f}" for time, _ in packet.arrived) or "LOST"
    to = packet.destination[-1]
    line = f"{packet.sent:10.4f} {host}.{boot} -> {to} psn {packet.psn} {what}{again} arrived {arrived}"
    return f"{line} [{' '.join(frames)}]"


def _finding_line(finding: Finding, verdict: str) -> str:
    when = f"{(finding.time - FIRST_DAY) / SECOND:.4f}" if finding.time is not None else ""
    frames = " ".join(f"{file}:{frame}" for file, frame in finding.frames)
    return f"{verdict:11} {finding.severity} {finding.confidence} {finding.code} {when} [{frames}] {finding.message}"
