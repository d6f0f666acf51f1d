"""Clocks of several captures: how far apart are they?

Two hosts record the same packets (same BTH PSN, same MAD bytes) at times that differ by the path delay and by the
offset of their clocks. The delay adds in one direction and subtracts in the other, so half the sum of both medians is
the offset. With packets of one direction only, the delay cannot be told from the offset; then nothing below a second is
believed.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from ibcmtool.decode import Decoder
from ibcmtool.model import Address, CmMessage
from ibcmtool.sources import Attention, Capture, open_capture

PACKETS = 10_000  # CM messages of each input that are looked at: enough for any median
FRAMES = 2_000_000  # frames of each input that are read for them
ONE_WAY_LIMIT = 1_000_000_000  # ns

Packet = tuple[int, bytes]  # PSN, MAD


def align(captures: Sequence[Capture]) -> None:
    """Set clock_offset and shared_packets of every input but the first; standard input cannot be read twice."""
    if len(captures) < 2 or any(capture.info.path == "-" for capture in captures):
        return
    known: dict[Packet, int] = {}
    for capture in captures:
        info = capture.info
        seen = _packets(info.path)
        differences: dict[Address, list[int]] = {}
        for packet, (source, time) in seen.items():
            if packet in known:
                differences.setdefault(source, []).append(time - known[packet])
        info.shared_packets = sum(len(values) for values in differences.values())
        info.clock_offset = offset(list(differences.values()))
        for packet, (_, time) in seen.items():
            known.setdefault(packet, time - info.clock_offset)


def offset(differences: Sequence[Sequence[int]]) -> int:
    """The offset (ns) from the time differences of the packets of each sender."""
    medians = [int(median(values)) for values in differences]
    if len(medians) < 2:
        return medians[0] if medians and abs(medians[0]) >= ONE_WAY_LIMIT else 0
    return (min(medians) + max(medians)) // 2


def _packets(path: str) -> dict[Packet, tuple[Address, int]]:
    """The CM messages of one input by identity; a packet that occurs twice is of no use and left out."""
    decode, found, twice = Decoder(), dict[Packet, tuple[Address, int]](), set[Packet]()
    with open_capture(path, 0) as capture:
        for frame in capture.scan(Attention()):
            message = decode(frame)
            if isinstance(message, CmMessage) and message.psn is not None:
                packet = (message.psn, message.mad)
                if packet in found:
                    twice.add(packet)
                found[packet] = (message.source, message.time)
            if len(found) >= PACKETS or frame.number >= FRAMES:
                break
    return {packet: where for packet, where in found.items() if packet not in twice}
