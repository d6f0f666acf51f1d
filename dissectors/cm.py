"""The messages of communication management, class version 2 (IBA vol. 1, chapter 12), one layer each.

Every layer is the whole 232-byte data area of its MAD. "Local" and "Remote" are seen from the sender of the message.
The field names are those of the specification; `reserved_N` stands at byte N. Fields that came later than the first
edition (ECE vendor ID, SRQ, Extended Transport Type, SAP Supported, the SIDR partition key) are named as the newest one
does. SAP and SPR have no published layout: their data stays raw.
"""

from __future__ import annotations

from scapy.packet import bind_bottom_up, bind_top_down

from .cm_codes import (
    AP_STATUSES,
    EXTENDED_TRANSPORT_TYPES,
    FAILOVER_ACCEPTED,
    MESSAGES_MRAED,
    MESSAGES_REJECTED,
    PATH_MTUS,
    RATES,
    REJ_REASONS,
    RNR_RETRY_COUNTS,
    SIDR_STATUSES,
    TRANSPORT_TYPES,
    additional_path_info,
    additional_reject_info,
    additional_sidr_info,
)
from .cm_fields import AdditionalInfoField, CmLayer, InfoLengthField, comm_ids, path
from .fields import (
    BytesField,
    CodeField,
    ExponentTimeField,
    GidField,
    GuidField,
    HexField,
    NumberField,
    SpecialField,
    check_layout,
)
from .mad import MAD
from .recognition import CM_ATTRIBUTES, CM_CLASS, CM_CLASS_VERSION

__all__ = [
    "AP_STATUSES",
    "CM_APR",
    "CM_DREP",
    "CM_DREQ",
    "CM_LAP",
    "CM_LAYERS",
    "CM_MRA",
    "CM_REJ",
    "CM_REP",
    "CM_REQ",
    "CM_RTU",
    "CM_SAP",
    "CM_SIDR_REP",
    "CM_SIDR_REQ",
    "CM_SPR",
    "EXTENDED_TRANSPORT_TYPES",
    "FAILOVER_ACCEPTED",
    "MESSAGES_MRAED",
    "MESSAGES_REJECTED",
    "PATH_MTUS",
    "RATES",
    "REJ_REASONS",
    "RNR_RETRY_COUNTS",
    "SIDR_STATUSES",
    "TRANSPORT_TYPES",
    "additional_path_info",
    "additional_reject_info",
    "additional_sidr_info",
]

DATA_SIZE = 232


class CM_REQ(CmLayer):
    """ConnectRequest. The defaults are what Linux asks for: 16 attempts, 4.3 s response times, RC, 7 retries."""

    name = "CM REQ"
    fields_desc = [
        HexField("local_comm_id", 0, 32),
        NumberField("reserved_4", 0, 8),
        HexField("ece_vendor_id", 0, 24),
        HexField("service_id", 0, 64),
        GuidField("local_ca_guid"),
        HexField("reserved_24", 0, 32),
        HexField("local_q_key", 0, 32),
        HexField("local_qpn", 0, 24),
        NumberField("responder_resources", 1, 8),
        HexField("local_eecn", 0, 24),
        NumberField("initiator_depth", 1, 8),
        HexField("remote_eecn", 0, 24),
        ExponentTimeField("remote_cm_response_timeout", 20),
        CodeField("transport_service_type", 0, 2, TRANSPORT_TYPES),
        NumberField("end_to_end_flow_control", 0, 1),
        NumberField("starting_psn", 0, 24),
        ExponentTimeField("local_cm_response_timeout", 20),
        NumberField("retry_count", 7, 3),
        HexField("partition_key", 0xFFFF, 16),
        CodeField("path_mtu", 3, 4, PATH_MTUS),
        NumberField("rdc_exists", 0, 1),
        SpecialField("rnr_retry_count", 7, 3, RNR_RETRY_COUNTS),
        NumberField("max_cm_retries", 15, 4),
        NumberField("srq", 0, 1),
        SpecialField("extended_transport_type", 0, 3, EXTENDED_TRANSPORT_TYPES),
        *path("primary", 52, 64, 19, [NumberField("reserved_95", 0, 3)]),
        *path("alternate", 96, 0, 0, [NumberField("sap_supported", 0, 1), NumberField("reserved_139", 0, 2)]),
        BytesField("private_data", 92),
    ]


class CM_MRA(CmLayer):
    """MsgRcptAck: the answer to a message will take up to `service_timeout` longer."""

    name = "CM MRA"
    fields_desc = [
        *comm_ids(),
        CodeField("message_mraed", 0, 2, MESSAGES_MRAED),
        NumberField("reserved_8", 0, 6),
        ExponentTimeField("service_timeout", 20),
        NumberField("reserved_9", 0, 3),
        BytesField("private_data", 222),
    ]


class CM_REJ(CmLayer):
    """ConnectReject."""

    name = "CM REJ"
    fields_desc = [
        *comm_ids(),
        CodeField("message_rejected", 0, 2, MESSAGES_REJECTED),
        NumberField("reserved_8", 0, 6),
        InfoLengthField("reject_info_length", 7, of="additional_reject_info"),
        NumberField("reserved_9", 0, 1),
        CodeField("reason", 28, 16, REJ_REASONS),
        AdditionalInfoField("additional_reject_info", 72),
        BytesField("private_data", 148),
    ]

    def info_in_words(self) -> tuple[str, str] | None:
        info = self.additional_reject_info or b""
        return additional_reject_info(self.reason, _length(self.reject_info_length, info), info)


class CM_REP(CmLayer):
    """ConnectReply. Of an XRC target, Linux puts the QPN into `local_eecn` and leaves `local_qpn` 0."""

    name = "CM REP"
    fields_desc = [
        *comm_ids(),
        HexField("local_q_key", 0, 32),
        HexField("local_qpn", 0, 24),
        HexField("ece_vendor_id_high", 0, 8),
        HexField("local_eecn", 0, 24),
        HexField("ece_vendor_id_middle", 0, 8),
        NumberField("starting_psn", 0, 24),
        HexField("ece_vendor_id_low", 0, 8),
        NumberField("responder_resources", 1, 8),
        NumberField("initiator_depth", 1, 8),
        ExponentTimeField("target_ack_delay", 15),
        CodeField("failover_accepted", 0, 2, FAILOVER_ACCEPTED),
        NumberField("end_to_end_flow_control", 0, 1),
        SpecialField("rnr_retry_count", 7, 3, RNR_RETRY_COUNTS),
        NumberField("srq", 0, 1),
        NumberField("reserved_27", 0, 4),
        GuidField("local_ca_guid"),
        BytesField("private_data", 196),
    ]


class CM_RTU(CmLayer):
    """ReadyToUse."""

    name = "CM RTU"
    fields_desc = [*comm_ids(), BytesField("private_data", 224)]


class CM_DREQ(CmLayer):
    """DisconnectRequest. `remote_qpn` is the EECN where the connection is of the reliable datagram service."""

    name = "CM DREQ"
    fields_desc = [
        *comm_ids(),
        HexField("remote_qpn", 0, 24),
        NumberField("reserved_11", 0, 8),
        BytesField("private_data", 220),
    ]


class CM_DREP(CmLayer):
    """DisconnectReply."""

    name = "CM DREP"
    fields_desc = [*comm_ids(), BytesField("private_data", 224)]


class CM_SIDR_REQ(CmLayer):
    """Service ID resolution request."""

    name = "CM SIDR_REQ"
    fields_desc = [
        HexField("request_id", 0, 32),
        HexField("partition_key", 0xFFFF, 16),
        HexField("reserved_6", 0, 16),
        HexField("service_id", 0, 64),
        BytesField("private_data", 216),
    ]


class CM_SIDR_REP(CmLayer):
    """Service ID resolution response. Linux loses the top byte of the ECE vendor ID in it, and sends length 0."""

    name = "CM SIDR_REP"
    fields_desc = [
        HexField("request_id", 0, 32),
        CodeField("status", 0, 8, SIDR_STATUSES),
        InfoLengthField("additional_info_length", 8, of="additional_info"),
        HexField("ece_vendor_id_high", 0, 16),
        HexField("qpn", 0, 24),
        HexField("ece_vendor_id_low", 0, 8),
        HexField("service_id", 0, 64),
        HexField("q_key", 0, 32),
        AdditionalInfoField("additional_info", 72),
        BytesField("private_data", 136),
    ]

    def info_in_words(self) -> tuple[str, str] | None:
        return additional_sidr_info(self.status, self.additional_info or b"")


class CM_LAP(CmLayer):
    """LoadAlternatePath. Its path fields do not stand in the order of the REQ's."""

    name = "CM LAP"
    fields_desc = [
        *comm_ids(),
        HexField("reserved_8", 0, 32),
        HexField("remote_qpn", 0, 24),
        ExponentTimeField("remote_cm_response_timeout", 20),
        NumberField("reserved_15", 0, 3),
        HexField("reserved_16", 0, 32),
        NumberField("alternate_local_lid", 0, 16),
        NumberField("alternate_remote_lid", 0, 16),
        GidField("alternate_local_gid"),
        GidField("alternate_remote_gid"),
        HexField("alternate_flow_label", 0, 20),
        NumberField("reserved_58", 0, 4),
        NumberField("alternate_traffic_class", 0, 8),
        NumberField("alternate_hop_limit", 64, 8),
        NumberField("reserved_61", 0, 2),
        CodeField("alternate_packet_rate", 0, 6, RATES),
        NumberField("alternate_sl", 0, 4),
        NumberField("alternate_subnet_local", 0, 1),
        NumberField("reserved_62", 0, 3),
        ExponentTimeField("alternate_local_ack_timeout", 19),
        NumberField("reserved_63", 0, 3),
        BytesField("private_data", 168),
    ]


class CM_APR(CmLayer):
    """AlternatePathResponse."""

    name = "CM APR"
    fields_desc = [
        *comm_ids(),
        InfoLengthField("additional_info_length", 8, of="additional_info"),
        CodeField("ap_status", 0, 8, AP_STATUSES),
        HexField("reserved_10", 0, 16),
        AdditionalInfoField("additional_info", 72),
        BytesField("private_data", 148),
    ]

    def info_in_words(self) -> tuple[str, str] | None:
        info = self.additional_info or b""
        return additional_path_info(self.ap_status, _length(self.additional_info_length, info), info)


class CM_SAP(CmLayer):
    """SuggestAlternatePath."""

    name = "CM SAP"
    fields_desc = [BytesField("data", DATA_SIZE)]


class CM_SPR(CmLayer):
    """SuggestPathResponse."""

    name = "CM SPR"
    fields_desc = [BytesField("data", DATA_SIZE)]


def _length(told: int | None, info: bytes) -> int:
    return len(info) if told is None else told


_LAYERS = (
    *(CM_REQ, CM_MRA, CM_REJ, CM_REP, CM_RTU, CM_DREQ, CM_DREP),
    *(CM_SIDR_REQ, CM_SIDR_REP, CM_LAP, CM_APR, CM_SAP, CM_SPR),
)
CM_LAYERS: dict[str, type[CmLayer]] = {layer.__name__.removeprefix("CM_"): layer for layer in _LAYERS}

for _attribute, _type in CM_ATTRIBUTES.items():
    if _type in CM_LAYERS:
        _layer = CM_LAYERS[_type]
        check_layout(_layer, DATA_SIZE)
        _binding = {"mgmt_class": CM_CLASS, "class_version": CM_CLASS_VERSION, "attribute_id": _attribute}
        bind_bottom_up(MAD, _layer, **_binding)
        bind_top_down(MAD, _layer, method=0x03, **_binding)
