"""Builds the captures that the benchmarks read: any size, valid to the last ICRC, the same bytes on every machine.

CM-only: whole lives (REQ REP RTU DREQ DREP) of 200 clients at one server, 2,000 a second, as in a reconnect storm.
Data-heavy: a working NVMe-oF link. Each 4 KiB read is a command, four READ RESPONSEs of 1 KiB and a completion, with
their acknowledgements; some hundred lives of connections are strewn among millions of such frames.
"""

from __future__ import annotations

import heapq
import struct
from collections.abc import Iterable, Iterator
from pathlib import Path
from random import Random

from dissectors.icrc import icrc_of

SAMPLES = Path(__file__).resolve().parent.parent / "captures" / "linux-rxe"
START = 1_700_000_000 * 1_000_000  # microseconds since the epoch
CLIENTS = 200
LIVES_PER_SECOND = 2_000
LIVES_AMONG_DATA = 100
HEADER = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 262144, 1)
PIECE = 1 << 20  # bytes written at once

# Offsets in a RoCE v2 frame over IPv4 without options or VLAN: Ethernet 14, IPv4 20, UDP 8, BTH 12, DETH 8.
IP, SOURCE_IP, DESTINATION_IP, UDP, BTH, MAD = 14, 26, 30, 34, 42, 62
OPCODE, DEST_QP, PSN = BTH, BTH + 5, BTH + 9
TID, LOCAL_ID, REMOTE_ID = MAD + 8, MAD + 24, MAD + 28
REQ_GUID, REQ_QPN, REP_QPN, DREQ_QPN = MAD + 40, MAD + 56, MAD + 36, MAD + 32
REQ_GID, REQ_PRIVATE = MAD + 24 + 56, MAD + 24 + 140
LIFE = (0, 300, 450, 40_000, 40_150)  # microseconds of the five messages of a life
SEND_ONLY, READ_RESPONSE_MIDDLE, ACKNOWLEDGE = 0x04, 0x0E, 0x11

Timed = tuple[int, bytes]  # microseconds since the start, frame


def frames_of(path: Path) -> list[bytes]:
    """The frames of a little-endian classic pcap file."""
    data, at, frames = path.read_bytes(), 24, []
    while at < len(data):
        captured = struct.unpack_from("<I", data, at + 8)[0]
        frames.append(data[at + 16 : at + 16 + captured])
        at += 16 + captured
    return frames


def cm_only(lives: int, per_second: int = LIVES_PER_SECOND) -> Iterator[Timed]:
    """The messages of so many lives in the order of time."""
    samples = frames_of(SAMPLES / "client_killed.pcap")
    waiting: list[Timed] = []
    for number in range(lives):
        now = number * 1_000_000 // per_second
        for timed in life(number, now, samples):
            heapq.heappush(waiting, timed)
        while waiting and waiting[0][0] <= now:
            yield heapq.heappop(waiting)
    while waiting:
        yield heapq.heappop(waiting)


def data_heavy(size: int) -> Iterator[Timed]:
    """Data frames for `size` bytes of file, with some hundred CM messages among them."""
    samples, written, now, lives = frames_of(SAMPLES / "client_killed.pcap"), len(HEADER), 0, 0
    reads = _reads()
    for number in range(size):  # ends by its size long before
        for frame in reads[number % len(reads)]:
            now += 1
            written += 16 + len(frame)
            yield now, frame
        if written > (lives + 0.5) * size / LIVES_AMONG_DATA:
            for _, frame in life(lives, now, samples):
                now += 100
                written += 16 + len(frame)
                yield now, frame
            lives += 1
        if written >= size:
            return


def record(microseconds: int, frame: bytes) -> bytes:
    """A record of a classic pcap file."""
    seconds, rest = divmod(START + microseconds, 1_000_000)
    return struct.pack("<IIII", seconds, rest, len(frame), len(frame)) + frame


def write(path: Path, frames: Iterable[Timed]) -> None:
    """A classic pcap file of these frames."""
    with path.open("wb") as file:
        file.write(HEADER)
        pieces, size = [], 0
        for microseconds, frame in frames:
            pieces.append(record(microseconds, frame))
            size += len(frame)
            if size > PIECE:
                file.write(b"".join(pieces))
                pieces, size = [], 0
        file.write(b"".join(pieces))


def life(number: int, start: int, samples: list[bytes]) -> Iterator[Timed]:
    """The five messages of one life."""
    client = number % CLIENTS
    address = bytes((10, 78, client >> 8, client & 255))
    active_id, passive_id = 0x1000_0000 + number, 0x8000_0000 + number
    active_qpn, passive_qpn = 0x100 + number // CLIENTS % 0x10000, 0x100 + number % 0xF00000
    for index, (delay, sample) in enumerate(zip(LIFE, samples, strict=True)):
        frame = bytearray(sample)
        from_client = index in (0, 2, 3)
        at = SOURCE_IP if from_client else DESTINATION_IP
        frame[at : at + 4] = address
        struct.pack_into(">Q", frame, TID, 0x2_0000_0000 | active_id)
        local, remote = (active_id, passive_id) if from_client else (passive_id, active_id)
        struct.pack_into(">I", frame, LOCAL_ID, local)
        if index:
            struct.pack_into(">I", frame, REMOTE_ID, remote)
        sequence = number // CLIENTS * 3 + (0, 0, 1, 2, 0)[index] if from_client else number * 2 + index // 4
        frame[PSN : PSN + 3] = (sequence & 0xFFFFFF).to_bytes(3, "big")
        if index == 0:
            struct.pack_into(">Q", frame, REQ_GUID, 0x5054_00FF_FE00_0000 | client)
            frame[REQ_QPN : REQ_QPN + 3] = active_qpn.to_bytes(3, "big")
            frame[REQ_GID + 12 : REQ_GID + 16] = address
            struct.pack_into(">H", frame, REQ_PRIVATE + 2, 1024 + number // CLIENTS % 60_000)
            frame[REQ_PRIVATE + 16 : REQ_PRIVATE + 20] = address
        elif index in (1, 3):
            qpn = REP_QPN if index == 1 else DREQ_QPN
            frame[qpn : qpn + 3] = passive_qpn.to_bytes(3, "big")
        yield start + delay, _sealed(frame)


def _reads() -> list[list[bytes]]:
    """The frames of some reads, enough of them that no two neighbours are alike."""
    random, sample = Random(1), bytearray(frames_of(SAMPLES / "client_killed.pcap")[0][: MAD - 8])

    def frame(opcode: int, qpn: int, payload: int) -> bytes:
        data = bytearray(sample) + random.randbytes(payload) + bytes(4)
        struct.pack_into(">H", data, IP + 2, len(data) - IP)
        struct.pack_into(">H", data, UDP + 4, len(data) - UDP)
        data[OPCODE] = opcode
        data[DEST_QP : DEST_QP + 3] = qpn.to_bytes(3, "big")
        return _sealed(data)

    return [
        [
            frame(SEND_ONLY, 0x31, 64),
            frame(ACKNOWLEDGE, 0x32, 4),
            *(frame(READ_RESPONSE_MIDDLE, 0x32, 1024) for _ in range(4)),
            frame(SEND_ONLY, 0x32, 16),
            frame(ACKNOWLEDGE, 0x31, 4),
        ]
        for _ in range(64)
    ]


def _sealed(frame: bytearray) -> bytes:
    """With the right IP checksum and ICRC."""
    frame[IP + 10 : IP + 12] = b"\0\0"
    total = sum(struct.unpack(">10H", frame[IP : IP + 20]))
    total = (total & 0xFFFF) + (total >> 16)
    struct.pack_into(">H", frame, IP + 10, 0xFFFF - (total & 0xFFFF) - (total >> 16))
    frame[-4:] = icrc_of(bytes(frame), IP, BTH, len(frame) - 4, "ipv4")
    return bytes(frame)
