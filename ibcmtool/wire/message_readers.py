"""Readers of the messages of Communication Management, whole ones, from the data behind the MAD header on.

Written by scripts/readers.py from `fields_desc` of the layers in dissectors: change the layers.
Each takes a buffer and an offset in it, and raises struct.error where the buffer ends before what it reads.
"""

# fmt: off
from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from typing import Final

from ibcmtool.messages import (
    Apr,
    ClassPortInfo,
    Drep,
    Dreq,
    Fields,
    Lap,
    Mra,
    Rej,
    Rep,
    Req,
    Rtu,
    Sap,
    SidrRep,
    SidrReq,
    Spr,
)
from ibcmtool.wire import Buffer

_req: Final = Struct("!IIQQIIIIIIHBBHH16s16sIBBBBHH16s16sIBBBB92s").unpack_from


def read_req(buffer: Buffer, offset: int) -> Req:
    (
        local_comm_id, w1, service_id, local_ca_guid, reserved_24, local_q_key, w6, w7, w8, w9, partition_key, w11, w12,
        primary_local_lid, primary_remote_lid, primary_local_gid, primary_remote_gid, w17, primary_traffic_class,
        primary_hop_limit, w20, w21, alternate_local_lid, alternate_remote_lid, alternate_local_gid,
        alternate_remote_gid, w26, alternate_traffic_class, alternate_hop_limit, w29, w30, private_data,
    ) = _req(buffer, offset)
    return Req(
        local_comm_id, w1 >> 24, w1 & 0xffffff, service_id, local_ca_guid, reserved_24, local_q_key, w6 >> 8, w6 & 0xff,
        w7 >> 8, w7 & 0xff, w8 >> 8, w8 >> 3 & 0x1f, w8 >> 1 & 0x3, w8 & 0x1, w9 >> 8, w9 >> 3 & 0x1f, w9 & 0x7,
        partition_key, w11 >> 4, w11 >> 3 & 0x1, w11 & 0x7, w12 >> 4, w12 >> 3 & 0x1, w12 & 0x7, primary_local_lid,
        primary_remote_lid, primary_local_gid, primary_remote_gid, w17 >> 12, w17 >> 6 & 0x3f, w17 & 0x3f,
        primary_traffic_class, primary_hop_limit, w20 >> 4, w20 >> 3 & 0x1, w20 & 0x7, w21 >> 3, w21 & 0x7,
        alternate_local_lid, alternate_remote_lid, alternate_local_gid, alternate_remote_gid, w26 >> 12,
        w26 >> 6 & 0x3f, w26 & 0x3f, alternate_traffic_class, alternate_hop_limit, w29 >> 4, w29 >> 3 & 0x1, w29 & 0x7,
        w30 >> 3, w30 >> 2 & 0x1, w30 & 0x3, private_data,
    )


_mra: Final = Struct("!IIBB222s").unpack_from


def read_mra(buffer: Buffer, offset: int) -> Mra:
    (local_comm_id, remote_comm_id, w2, w3, private_data) = _mra(buffer, offset)
    return Mra(local_comm_id, remote_comm_id, w2 >> 6, w2 & 0x3f, w3 >> 3, w3 & 0x7, private_data)


_rej: Final = Struct("!IIBBH72s148s").unpack_from


def read_rej(buffer: Buffer, offset: int) -> Rej:
    (local_comm_id, remote_comm_id, w2, w3, reason, additional_reject_info, private_data) = _rej(buffer, offset)
    return Rej(
        local_comm_id, remote_comm_id, w2 >> 6, w2 & 0x3f, w3 >> 1, w3 & 0x1, reason, additional_reject_info,
        private_data,
    )


_rep: Final = Struct("!IIIIIIBBBBQ196s").unpack_from


def read_rep(buffer: Buffer, offset: int) -> Rep:
    (
        local_comm_id, remote_comm_id, local_q_key, w3, w4, w5, responder_resources, initiator_depth, w8, w9,
        local_ca_guid, private_data,
    ) = _rep(buffer, offset)
    return Rep(
        local_comm_id, remote_comm_id, local_q_key, w3 >> 8, w3 & 0xff, w4 >> 8, w4 & 0xff, w5 >> 8, w5 & 0xff,
        responder_resources, initiator_depth, w8 >> 3, w8 >> 1 & 0x3, w8 & 0x1, w9 >> 5, w9 >> 4 & 0x1, w9 & 0xf,
        local_ca_guid, private_data,
    )


_rtu: Final = Struct("!II224s").unpack_from


def read_rtu(buffer: Buffer, offset: int) -> Rtu:
    (local_comm_id, remote_comm_id, private_data) = _rtu(buffer, offset)
    return Rtu(local_comm_id, remote_comm_id, private_data)


_dreq: Final = Struct("!III220s").unpack_from


def read_dreq(buffer: Buffer, offset: int) -> Dreq:
    (local_comm_id, remote_comm_id, w2, private_data) = _dreq(buffer, offset)
    return Dreq(local_comm_id, remote_comm_id, w2 >> 8, w2 & 0xff, private_data)


_drep: Final = Struct("!II224s").unpack_from


def read_drep(buffer: Buffer, offset: int) -> Drep:
    (local_comm_id, remote_comm_id, private_data) = _drep(buffer, offset)
    return Drep(local_comm_id, remote_comm_id, private_data)


_sidr_req: Final = Struct("!IHHQ216s").unpack_from


def read_sidr_req(buffer: Buffer, offset: int) -> SidrReq:
    (request_id, partition_key, reserved_6, service_id, private_data) = _sidr_req(buffer, offset)
    return SidrReq(request_id, partition_key, reserved_6, service_id, private_data)


_sidr_rep: Final = Struct("!IBBHIQI72s136s").unpack_from


def read_sidr_rep(buffer: Buffer, offset: int) -> SidrRep:
    (
        request_id, status, additional_info_length, ece_vendor_id_high, w4, service_id, q_key, additional_info,
        private_data,
    ) = _sidr_rep(buffer, offset)
    return SidrRep(
        request_id, status, additional_info_length, ece_vendor_id_high, w4 >> 8, w4 & 0xff, service_id, q_key,
        additional_info, private_data,
    )


_lap: Final = Struct("!IIIIIHH16s16sIBBBB168s").unpack_from


def read_lap(buffer: Buffer, offset: int) -> Lap:
    (
        local_comm_id, remote_comm_id, reserved_8, w3, reserved_16, alternate_local_lid, alternate_remote_lid,
        alternate_local_gid, alternate_remote_gid, w9, alternate_hop_limit, w11, w12, w13, private_data,
    ) = _lap(buffer, offset)
    return Lap(
        local_comm_id, remote_comm_id, reserved_8, w3 >> 8, w3 >> 3 & 0x1f, w3 & 0x7, reserved_16, alternate_local_lid,
        alternate_remote_lid, alternate_local_gid, alternate_remote_gid, w9 >> 12, w9 >> 8 & 0xf, w9 & 0xff,
        alternate_hop_limit, w11 >> 6, w11 & 0x3f, w12 >> 4, w12 >> 3 & 0x1, w12 & 0x7, w13 >> 3, w13 & 0x7,
        private_data,
    )


_apr: Final = Struct("!IIBBH72s148s").unpack_from


def read_apr(buffer: Buffer, offset: int) -> Apr:
    (
        local_comm_id, remote_comm_id, additional_info_length, ap_status, reserved_10, additional_info, private_data,
    ) = _apr(buffer, offset)
    return Apr(
        local_comm_id, remote_comm_id, additional_info_length, ap_status, reserved_10, additional_info, private_data,
    )


_sap: Final = Struct("!232s").unpack_from


def read_sap(buffer: Buffer, offset: int) -> Sap:
    (data,) = _sap(buffer, offset)
    return Sap(data,)


_spr: Final = Struct("!232s").unpack_from


def read_spr(buffer: Buffer, offset: int) -> Spr:
    (data,) = _spr(buffer, offset)
    return Spr(data,)


_classportinfo: Final = Struct("!BBHI16sIHHII16sIHHII").unpack_from


def read_classportinfo(buffer: Buffer, offset: int) -> ClassPortInfo:
    (
        base_version, class_version, capability_mask, w3, redirect_gid, w5, redirect_lid, redirect_partition_key, w8,
        redirect_q_key, trap_gid, w11, trap_lid, trap_partition_key, w14, trap_q_key,
    ) = _classportinfo(buffer, offset)
    return ClassPortInfo(
        base_version, class_version, capability_mask, w3 >> 5, w3 & 0x1f, redirect_gid, w5 >> 24, w5 >> 20 & 0xf,
        w5 & 0xfffff, redirect_lid, redirect_partition_key, w8 >> 24, w8 & 0xffffff, redirect_q_key, trap_gid,
        w11 >> 24, w11 >> 20 & 0xf, w11 & 0xfffff, trap_lid, trap_partition_key, w14 >> 24, w14 & 0xffffff, trap_q_key,
    )


# By message type, as in `CmMessage.type`.
MESSAGE_READERS: Final[dict[str, Callable[[Buffer, int], Fields]]] = {
    "REQ": read_req,
    "MRA": read_mra,
    "REJ": read_rej,
    "REP": read_rep,
    "RTU": read_rtu,
    "DREQ": read_dreq,
    "DREP": read_drep,
    "SIDR_REQ": read_sidr_req,
    "SIDR_REP": read_sidr_rep,
    "LAP": read_lap,
    "APR": read_apr,
    "SAP": read_sap,
    "SPR": read_spr,
    "ClassPortInfo": read_classportinfo,
}
