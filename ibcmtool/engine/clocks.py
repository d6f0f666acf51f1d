"""Clocks of several captures: how far apart are they?

Two hosts record the same packets (same BTH PSN, same MAD bytes) at times that differ by the path delay and by the
offset of their clocks. The delay adds in one direction and subtracts in the other, so the offset lies between the
smallest difference of the one and the largest of the other; where late captures make these overlap, half the sum of
both medians stands for it. With packets of one direction only, the delay cannot be told from the offset; then nothing
is believed that a path and a busy capture may take, and anything longer is. Inputs without a common packet may still
show one exchange in turn, each end its own messages: an answer is never before its question, which leaves little room.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from ibcmtool.connections.matching import COPY_WINDOW
from ibcmtool.packets import Address, CmMessage
from ibcmtool.rules.facts.coverage import chained
from ibcmtool.sources.files import Capture, ScanRequest, open_capture
from ibcmtool.wire.decode import Decoder

PACKETS: Final = 10_000  # CM messages of each input that are looked at: enough for any median
FRAMES: Final = 2_000_000  # frames of each input that are read for them
LONGEST_WAY: Final = 50_000_000  # ns from one capture to the other, lateness of both included; rules bear so much

ANSWERED: Final = {"REP": "REQ", "RTU": "REP", "DREP": "DREQ"}  # by the answer
QUESTIONED: Final = {question: answer for answer, question in ANSWERED.items()}

Packet = tuple[int, bytes]  # PSN, MAD
Turn = tuple[str, int, Address, Address]  # in an exchange: message type, TransactionID, source, destination


class Seen(NamedTuple):
    """What inputs show that tells of their clocks, with times in ns."""

    packets: dict[Packet, tuple[Address, int]]  # source and time
    turns: dict[Turn, int | None]  # time of the message; None where it was sent again


class Look(NamedTuple):
    """The beginning of an input, by its own clock."""

    seen: Seen
    first_time: int | None
    last_time: int | None  # None: it goes on


NOTHING: Final = Look(Seen({}, {}), None, None)


def align(captures: Sequence[Capture], given: Mapping[str, int] | None = None) -> list[int | None]:
    """Set clock_offset, clock_given and shared_packets of every input; when each begins, by the common clock.

    The clock of the first input is the common one. `given` holds offsets by path (ns), which stand in for the estimate.
    What begins when is found out for several inputs only, and never for standard input, which cannot be read twice.
    """
    offsets = given or {}
    looks = [_look(capture.info.path) if len(captures) > 1 else NOTHING for capture in captures]
    estimated = estimate(looks, [offsets.get(capture.info.path) for capture in captures])
    starts = []
    for capture, look, (clock_offset, shared) in zip(captures, looks, estimated, strict=True):
        info = capture.info
        info.clock_given = info.path in offsets
        info.clock_offset, info.shared_packets = clock_offset, shared
        starts.append(None if look.first_time is None else look.first_time - clock_offset)
    return starts


def estimate(looks: Sequence[Look], given: Sequence[int | None]) -> list[tuple[int, int]]:
    """How far (ns) the clock of each input is ahead of that of the first, and how many packets an earlier one has too.

    Files of a ring have one clock, so what all of them share tells of it.
    """
    chains = chained([(look.first_time, look.last_time) for look in looks])
    known, found = Seen({}, {}), [(0, 0)] * len(looks)
    for chain in dict.fromkeys(chains):
        members = [at for at, its in enumerate(chains) if its == chain]
        together = Seen({}, {})
        for at in members:
            add(together, looks[at].seen, 0)
        usual = compare(known, together)
        for at in members:
            by_hand = given[at]
            shared = sum(packet in known.packets for packet in looks[at].seen.packets)
            found[at] = (usual if by_hand is None else by_hand, shared)
        for at in members:
            add(known, looks[at].seen, found[at][0])
    return found


def compare(known: Seen, found: Seen) -> int:
    """How far (ns) the clock of `found` is ahead of that of `known`; 0 where nothing tells of it."""
    differences: dict[Address, list[int]] = {}
    for packet, (source, time) in found.packets.items():
        if packet in known.packets:
            differences.setdefault(source, []).append(time - known.packets[packet][1])
    return offset(list(differences.values())) if differences else _by_causality(known.turns, found.turns)


def offset(differences: Sequence[Sequence[int]]) -> int:
    """The offset (ns) from the time differences of the packets of each sender."""
    from statistics import median  # takes longer to load than a small capture to read, and one input needs none

    medians = [int(median(values)) for values in differences]
    if len(medians) < 2:
        return medians[0] if medians and abs(medians[0]) > LONGEST_WAY else 0
    middle = (min(medians) + max(medians)) // 2
    below = [max(values) for values, usual in zip(differences, medians, strict=True) if usual <= middle]
    above = [min(values) for values, usual in zip(differences, medians, strict=True) if usual > middle]
    return (max(below) + min(above)) // 2 if above and max(below) <= min(above) else middle


def seen(messages: Iterable[CmMessage]) -> Seen:
    """What these messages of one input, in their order, tell of its clock."""
    packets: dict[Packet, tuple[Address, int]] = {}
    turns: dict[Turn, int | None] = {}
    useless: set[Packet] = set()
    for message in messages:
        if message.psn is None:
            continue
        packet = (message.psn, message.mad)
        if packet in packets:  # a mirror port shows both sides of a switch, or a PSN does not count
            if message.time - packets[packet][1] >= COPY_WINDOW:
                useless.add(packet)
            continue
        packets[packet] = (message.source, message.time)
        if message.type in ANSWERED or message.type in QUESTIONED:
            turn = (message.type, message.tid, message.source, message.destination)
            turns[turn] = None if turn in turns else message.time
    for packet in useless:
        del packets[packet]
    return Seen(packets, turns)


def add(known: Seen, found: Seen, clock_offset: int) -> None:
    """Enter what an input shows into what is known, by the common clock."""
    for packet, (source, time) in found.packets.items():
        known.packets.setdefault(packet, (source, time - clock_offset))
    for turn, moment in found.turns.items():
        known.turns.setdefault(turn, None if moment is None else moment - clock_offset)


def _by_causality(known: Mapping[Turn, int | None], found: Mapping[Turn, int | None]) -> int:
    """The offset of an input without a common packet: 0 unless an answer would come before its question by that.

    Both bounds are needed; without one the clocks are taken for right.
    """
    least, most = [], []
    for (kind, tid, source, destination), time in found.items():
        if time is None or (kind, tid, source, destination) in known:
            continue  # repeated, or another life with the same ids: which answers which is not sure
        question = known.get((ANSWERED.get(kind, ""), tid, destination, source))
        answer = known.get((QUESTIONED.get(kind, ""), tid, destination, source))
        if question is not None:
            most.append(time - question)
        if answer is not None:
            least.append(time - answer)
    if not least or not most:
        return 0
    low, high = max(least), min(most)
    if low - LONGEST_WAY <= 0 <= high + LONGEST_WAY or low > high + LONGEST_WAY:
        return 0
    return (low + high) // 2


def _look(path: str) -> Look:
    if path == "-" or not Path(path).is_file():  # a pipe, too, can be read only once
        return NOTHING
    decode, messages = Decoder(), []
    with open_capture(path, 0) as capture:
        whole = True
        for frame in capture.scan(ScanRequest()):
            message = decode(frame)
            if isinstance(message, CmMessage):
                messages.append(message)
            if len(messages) >= PACKETS or frame.number >= FRAMES:
                whole = False
                break
    return Look(seen(messages), capture.info.first_time, capture.info.last_time if whole else None)
