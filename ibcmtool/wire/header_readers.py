"""Readers of what is needed of the headers in front of a message, and of its ids.

Written by scripts/readers.py from `fields_desc` of the layers in dissectors: change the layers, or HEADERS there.
Each takes a buffer and an offset in it, and raises struct.error where the buffer ends before what it reads.
"""

# fmt: off
from __future__ import annotations

from struct import Struct
from typing import Final

from ibcmtool.wire import Buffer

_packet_end: Final = Struct("!1xB2xH").unpack_from


def read_packet_end(buffer: Buffer, offset: int) -> tuple[int, int]:
    (w0, w1) = _packet_end(buffer, offset)
    return (w0 & 0x3, w1 & 0x7ff)


_lids: Final = Struct("!2xH2xH").unpack_from


def read_lids(buffer: Buffer, offset: int) -> tuple[int, int]:
    (dlid, slid) = _lids(buffer, offset)
    return (slid, dlid)


_local_route: Final = Struct("!1xBH2xH").unpack_from


def read_local_route(buffer: Buffer, offset: int) -> tuple[int, int, int]:
    (w0, dlid, slid) = _local_route(buffer, offset)
    return (slid, dlid, w0 >> 4)


_next_header: Final = Struct("!4xHB").unpack_from


def read_next_header(buffer: Buffer, offset: int) -> tuple[int, int]:
    (payload_length, next_header) = _next_header(buffer, offset)
    return (next_header, payload_length)


_gids: Final = Struct("!8x16s16s").unpack_from


def read_gids(buffer: Buffer, offset: int) -> tuple[bytes, bytes]:
    (sgid, dgid) = _gids(buffer, offset)
    return (sgid, dgid)


_global_route: Final = Struct("!I3xB16s16s").unpack_from


def read_global_route(buffer: Buffer, offset: int) -> tuple[int, int, int, bytes, bytes]:
    (w0, hop_limit, sgid, dgid) = _global_route(buffer, offset)
    return (hop_limit, w0 >> 20 & 0xff, w0 & 0xfffff, sgid, dgid)


_lids_and_gids: Final = Struct("!2xH2xH8x16s16s").unpack_from


def read_lids_and_gids(buffer: Buffer, offset: int) -> tuple[int, int, bytes, bytes]:
    (dlid, slid, sgid, dgid) = _lids_and_gids(buffer, offset)
    return (slid, dlid, sgid, dgid)


_destination_qp: Final = Struct("!4xI").unpack_from


def read_destination_qp(buffer: Buffer, offset: int) -> tuple[int]:
    (w0,) = _destination_qp(buffer, offset)
    return (w0 & 0xffffff,)


_transport: Final = Struct("!2xHI4xII").unpack_from


def read_transport(buffer: Buffer, offset: int) -> tuple[int, int, int, int]:
    (partition_key, w1, q_key, w3) = _transport(buffer, offset)
    return (partition_key, w1 & 0xffffff, w3 & 0xffffff, q_key)


_cm_headers: Final = Struct("!4xIII4xBBBB4xQH").unpack_from


def read_cm_headers(buffer: Buffer, offset: int) -> tuple[int, int, int, int, int, int, int, int, int]:
    (w0, w1, q_key, base_version, mgmt_class, class_version, method, tid, attribute_id) = _cm_headers(buffer, offset)
    return (w0 & 0xffffff, w1 & 0xffffff, q_key, base_version, mgmt_class, class_version, method, tid, attribute_id)


_cm_headers_immediate: Final = Struct("!4xIII8xBBBB4xQH").unpack_from


def read_cm_headers_immediate(buffer: Buffer, offset: int) -> tuple[int, int, int, int, int, int, int, int, int]:
    (
        w0, w1, q_key, base_version, mgmt_class, class_version, method, tid, attribute_id,
    ) = _cm_headers_immediate(buffer, offset)
    return (w0 & 0xffffff, w1 & 0xffffff, q_key, base_version, mgmt_class, class_version, method, tid, attribute_id)


_attribute: Final = Struct("!16xH").unpack_from


def read_attribute(buffer: Buffer, offset: int) -> tuple[int]:
    (attribute_id,) = _attribute(buffer, offset)
    return (attribute_id,)


_request_key: Final = Struct("!8xQH").unpack_from


def read_request_key(buffer: Buffer, offset: int) -> tuple[int, int]:
    (tid, attribute_id) = _request_key(buffer, offset)
    return (tid, attribute_id)


_message_ids: Final = Struct("!8xQH6xII").unpack_from


def read_message_ids(buffer: Buffer, offset: int) -> tuple[int, int, int, int]:
    (tid, attribute_id, local_comm_id, remote_comm_id) = _message_ids(buffer, offset)
    return (tid, attribute_id, local_comm_id, remote_comm_id)


_primary_path: Final = Struct("!76xHH16s16s6xB").unpack_from


def read_primary_path(buffer: Buffer, offset: int) -> tuple[int, int, bytes, bytes, int]:
    (primary_local_lid, primary_remote_lid, primary_local_gid, primary_remote_gid, w4) = _primary_path(buffer, offset)
    return (primary_local_lid, primary_remote_lid, primary_local_gid, primary_remote_gid, w4 >> 3 & 0x1)
