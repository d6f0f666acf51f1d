"""The messages of Communication Management, one class each, so that a misspelt field is found by the type checker.

Written by scripts/layouts.py from `fields_desc` of the layers in dissectors: change the layers. Numbers are ints, GIDs,
additional information and private data bytes; None stands for what the capture cut off.
"""

from __future__ import annotations

from typing import NamedTuple


class Req(NamedTuple):
    """ConnectRequest. The defaults are what Linux asks for: 16 attempts, 4.3 s response times, RC, 7 retries."""

    local_comm_id: int | None
    reserved_4: int | None
    ece_vendor_id: int | None
    service_id: int | None
    local_ca_guid: int | None
    reserved_24: int | None
    local_q_key: int | None
    local_qpn: int | None
    responder_resources: int | None
    local_eecn: int | None
    initiator_depth: int | None
    remote_eecn: int | None
    remote_cm_response_timeout: int | None
    transport_service_type: int | None
    end_to_end_flow_control: int | None
    starting_psn: int | None
    local_cm_response_timeout: int | None
    retry_count: int | None
    partition_key: int | None
    path_mtu: int | None
    rdc_exists: int | None
    rnr_retry_count: int | None
    max_cm_retries: int | None
    srq: int | None
    extended_transport_type: int | None
    primary_local_lid: int | None
    primary_remote_lid: int | None
    primary_local_gid: bytes | None
    primary_remote_gid: bytes | None
    primary_flow_label: int | None
    reserved_90: int | None
    primary_packet_rate: int | None
    primary_traffic_class: int | None
    primary_hop_limit: int | None
    primary_sl: int | None
    primary_subnet_local: int | None
    reserved_94: int | None
    primary_local_ack_timeout: int | None
    reserved_95: int | None
    alternate_local_lid: int | None
    alternate_remote_lid: int | None
    alternate_local_gid: bytes | None
    alternate_remote_gid: bytes | None
    alternate_flow_label: int | None
    reserved_134: int | None
    alternate_packet_rate: int | None
    alternate_traffic_class: int | None
    alternate_hop_limit: int | None
    alternate_sl: int | None
    alternate_subnet_local: int | None
    reserved_138: int | None
    alternate_local_ack_timeout: int | None
    sap_supported: int | None
    reserved_139: int | None
    private_data: bytes | None


class Mra(NamedTuple):
    """MsgRcptAck: the answer to a message will take up to `service_timeout` longer."""

    local_comm_id: int | None
    remote_comm_id: int | None
    message_mraed: int | None
    reserved_8: int | None
    service_timeout: int | None
    reserved_9: int | None
    private_data: bytes | None


class Rej(NamedTuple):
    """ConnectReject."""

    local_comm_id: int | None
    remote_comm_id: int | None
    message_rejected: int | None
    reserved_8: int | None
    reject_info_length: int | None
    reserved_9: int | None
    reason: int | None
    additional_reject_info: bytes | None
    private_data: bytes | None


class Rep(NamedTuple):
    """ConnectReply. Of an XRC target, Linux puts the QPN into `local_eecn` and leaves `local_qpn` 0."""

    local_comm_id: int | None
    remote_comm_id: int | None
    local_q_key: int | None
    local_qpn: int | None
    ece_vendor_id_high: int | None
    local_eecn: int | None
    ece_vendor_id_middle: int | None
    starting_psn: int | None
    ece_vendor_id_low: int | None
    responder_resources: int | None
    initiator_depth: int | None
    target_ack_delay: int | None
    failover_accepted: int | None
    end_to_end_flow_control: int | None
    rnr_retry_count: int | None
    srq: int | None
    reserved_27: int | None
    local_ca_guid: int | None
    private_data: bytes | None


class Rtu(NamedTuple):
    """ReadyToUse."""

    local_comm_id: int | None
    remote_comm_id: int | None
    private_data: bytes | None


class Dreq(NamedTuple):
    """DisconnectRequest. `remote_qpn` is the EECN where the connection is of the reliable datagram service."""

    local_comm_id: int | None
    remote_comm_id: int | None
    remote_qpn: int | None
    reserved_11: int | None
    private_data: bytes | None


class Drep(NamedTuple):
    """DisconnectReply."""

    local_comm_id: int | None
    remote_comm_id: int | None
    private_data: bytes | None


class SidrReq(NamedTuple):
    """Service ID resolution request."""

    request_id: int | None
    partition_key: int | None
    reserved_6: int | None
    service_id: int | None
    private_data: bytes | None


class SidrRep(NamedTuple):
    """Service ID resolution response. Linux loses the top byte of the ECE vendor ID in it, and sends length 0."""

    request_id: int | None
    status: int | None
    additional_info_length: int | None
    ece_vendor_id_high: int | None
    qpn: int | None
    ece_vendor_id_low: int | None
    service_id: int | None
    q_key: int | None
    additional_info: bytes | None
    private_data: bytes | None


class Lap(NamedTuple):
    """LoadAlternatePath. Its path fields do not stand in the order of the REQ's."""

    local_comm_id: int | None
    remote_comm_id: int | None
    reserved_8: int | None
    remote_qpn: int | None
    remote_cm_response_timeout: int | None
    reserved_15: int | None
    reserved_16: int | None
    alternate_local_lid: int | None
    alternate_remote_lid: int | None
    alternate_local_gid: bytes | None
    alternate_remote_gid: bytes | None
    alternate_flow_label: int | None
    reserved_58: int | None
    alternate_traffic_class: int | None
    alternate_hop_limit: int | None
    reserved_61: int | None
    alternate_packet_rate: int | None
    alternate_sl: int | None
    alternate_subnet_local: int | None
    reserved_62: int | None
    alternate_local_ack_timeout: int | None
    reserved_63: int | None
    private_data: bytes | None


class Apr(NamedTuple):
    """AlternatePathResponse."""

    local_comm_id: int | None
    remote_comm_id: int | None
    additional_info_length: int | None
    ap_status: int | None
    reserved_10: int | None
    additional_info: bytes | None
    private_data: bytes | None


class Sap(NamedTuple):
    """SuggestAlternatePath."""

    data: bytes | None


class Spr(NamedTuple):
    """SuggestPathResponse."""

    data: bytes | None


class ClassPortInfo(NamedTuple):
    """What a port's class agent can do, and where it redirects to. In class 7 it stands at the start of the data."""

    base_version: int | None
    class_version: int | None
    capability_mask: int | None
    capability_mask2: int | None
    resp_time_value: int | None
    redirect_gid: bytes | None
    redirect_traffic_class: int | None
    redirect_sl: int | None
    redirect_flow_label: int | None
    redirect_lid: int | None
    redirect_partition_key: int | None
    reserved_32: int | None
    redirect_qp: int | None
    redirect_q_key: int | None
    trap_gid: bytes | None
    trap_traffic_class: int | None
    trap_sl: int | None
    trap_flow_label: int | None
    trap_lid: int | None
    trap_partition_key: int | None
    trap_hop_limit: int | None
    trap_qp: int | None
    trap_q_key: int | None


class UnknownMessage(NamedTuple):
    """A message whose attribute ID no edition of the specification defines."""

    data: bytes | None


Fields = (
    Req
    | Mra
    | Rej
    | Rep
    | Rtu
    | Dreq
    | Drep
    | SidrReq
    | SidrRep
    | Lap
    | Apr
    | Sap
    | Spr
    | ClassPortInfo
    | UnknownMessage
)
Request = Req | SidrReq
Reply = Rep | SidrRep
Paired = Mra | Rej | Rep | Rtu | Dreq | Drep | Lap | Apr  # with the Communication IDs of both ends
PAIRED = (Mra, Rej, Rep, Rtu, Dreq, Drep, Lap, Apr)

# By message type, as in `CmMessage.type`.
MESSAGES: dict[str, type[Fields]] = {
    "REQ": Req,
    "MRA": Mra,
    "REJ": Rej,
    "REP": Rep,
    "RTU": Rtu,
    "DREQ": Dreq,
    "DREP": Drep,
    "SIDR_REQ": SidrReq,
    "SIDR_REP": SidrRep,
    "LAP": Lap,
    "APR": Apr,
    "SAP": Sap,
    "SPR": Spr,
    "ClassPortInfo": ClassPortInfo,
}
