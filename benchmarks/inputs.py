"""Builds the captures that the benchmarks read: any size, valid to the last ICRC, the same bytes on every machine.

CM-only: whole lives (REQ REP RTU DREQ DREP) between one server and a row of clients, as a reconnect storm has them.
Data-heavy: RC data frames with a few connections among them, as a capture of a working storage host has them.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

from dissectors.icrc import icrc_of

SAMPLE = Path(__file__).resolve().parent.parent / "captures" / "linux-rxe" / "client_killed.pcap"
START = 1_700_000_000 * 1_000_000  # microseconds
CLIENTS = 200
LIVES_PER_SECOND = 2_000
HEADER = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 262144, 1)

# Offsets in a RoCE v2 frame over IPv4 without options or VLAN: Ethernet 14, IPv4 20, UDP 8, BTH 12, DETH 8.
SOURCE_IP, DESTINATION_IP, BTH, MAD = 26, 30, 42, 62
PSN, TID, LOCAL_ID, REMOTE_ID = BTH + 9, MAD + 8, MAD + 24, MAD + 28
REQ_GUID, REQ_QPN, REP_QPN, DREQ_QPN = MAD + 40, MAD + 56, MAD + 36, MAD + 32
REQ_SOURCE_IP, REQ_PORT = MAD + 24 + 140 + 16, MAD + 24 + 140 + 2
REQ_GID, REQ_PEER_GID = MAD + 24 + 56, MAD + 24 + 72
MICROSECONDS = (0, 300, 450, 40_000, 40_150)  # a life, from its REQ


def frames_of(path: Path) -> list[bytes]:
    """The frames of a little-endian classic pcap file."""
    data, at, frames = path.read_bytes(), 24, []
    while at < len(data):
        captured = struct.unpack_from("<I", data, at + 8)[0]
        frames.append(data[at + 16 : at + 16 + captured])
        at += 16 + captured
    return frames


def record(microseconds: int, frame: bytes | bytearray) -> bytes:
    return struct.pack("<IIII", *divmod(START + microseconds, 1_000_000), len(frame), len(frame)) + frame


def life(number: int, samples: list[bytes]) -> Iterator[tuple[int, bytearray]]:
    """The five messages of one life: microseconds after its REQ, and the frame."""
    client = number % CLIENTS
    address = bytes((10, 78, client >> 8, client & 255))
    active_id, passive_id = 0x1000_0000 + number, 0x8000_0000 + number
    active_qpn = 0x100 + number // CLIENTS % 0x10000
    passive_qpn = 0x100 + number % 0xF00000
    for index, (delay, sample) in enumerate(zip(MICROSECONDS, samples, strict=True)):
        frame = bytearray(sample)
        from_client = index in (0, 2, 3)
        position = SOURCE_IP if from_client else DESTINATION_IP
        frame[position : position + 4] = address
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
            frame[REQ_SOURCE_IP : REQ_SOURCE_IP + 4] = address
            struct.pack_into(">H", frame, REQ_PORT, 1024 + number // CLIENTS % 60_000)
        elif index == 1:
            frame[REP_QPN : REP_QPN + 3] = passive_qpn.to_bytes(3, "big")
        elif index == 3:
            frame[DREQ_QPN : DREQ_QPN + 3] = passive_qpn.to_bytes(3, "big")
        frame[-4:] = icrc_of(bytes(frame), 14, 42, len(frame)-4, 'ipv4')
        yield delay, frame
