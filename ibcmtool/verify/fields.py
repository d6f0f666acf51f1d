"""Which field of Wireshark shows which of ours.

Names are those of `tshark -G fields` (4.0). A field that an older or newer tshark does not have is not compared.
Fields that Wireshark lumps together under `infiniband.reserved` are left out, and so are those that it does not show at
all: the ECE vendor ids, FECN and BECN, and all fields of MRA, LAP, APR, SIDR_REQ and SIDR_REP.
"""

from __future__ import annotations

Field = tuple[str, str]  # layer and field of ours

MISPLACED_QPN = "infiniband.cm.req.remoteqpneecn"  # tshark 4.0 files the DREQ's QPN among the fields of the REQ

_Names = dict[str, str | tuple[str, ...]]
_PAIRED: _Names = {"local_comm_id": "localcommid", "remote_comm_id": "remotecommid", "private_data": "private"}

# Ours -> the last part of Wireshark's name; a tuple where it has several, as for GIDs that hold an IPv4 address.
_LAYERS: dict[str, tuple[str, _Names]] = {
    "LRH": (
        "infiniband.lrh",
        {
            "vl": "vl",
            "link_version": "lver",
            "service_level": "sl",
            "reserved_1": "reserved2",
            "lnh": "lnh",
            "dlid": "dlid",
            "reserved_4": "reserved5",
            "packet_length": "pktlen",
            "slid": "slid",
        },
    ),
    "GRH": (
        "infiniband.grh",
        {
            "ip_version": "ipver",
            "traffic_class": "tclass",
            "flow_label": "flowlabel",
            "payload_length": "paylen",
            "next_header": "nxthdr",
            "hop_limit": "hoplmt",
            "sgid": "sgid",
            "dgid": "dgid",
        },
    ),
    "BTH": (
        "infiniband.bth",
        {
            "opcode": "opcode",
            "solicited_event": "se",
            "migration_request": "m",
            "pad_count": "padcnt",
            "transport_version": "tver",
            "partition_key": "p_key",
            "dest_qp": "destqp",
            "ack_request": "a",
            "reserved_8": "reserved7",
            "psn": "psn",
        },
    ),
    "DETH": ("infiniband.deth", {"q_key": "q_key", "source_qp": "srcqp"}),
    "MAD": (
        "infiniband.mad",
        {
            "base_version": "baseversion",
            "mgmt_class": "mgmtclass",
            "class_version": "classversion",
            "method": "method",
            "status": "status",
            "class_specific": "classspecific",
            "tid": "transactionid",
            "attribute_id": "attributeid",
            "attribute_modifier": "attributemodifier",
        },
    ),
    "CM_REQ": (
        "infiniband.cm.req",
        {
            "local_comm_id": "",
            "service_id": "serviceid",
            "local_ca_guid": "localcaguid",
            "local_q_key": "localqkey",
            "local_qpn": "localqpn",
            "responder_resources": "responderres",
            "local_eecn": "localeecn",
            "initiator_depth": "initdepth",
            "remote_eecn": "remoteeecn",
            "remote_cm_response_timeout": "remoteresptout",
            "transport_service_type": "transpsvctype",
            "end_to_end_flow_control": "e2eflowctrl",
            "starting_psn": "startpsn",
            "local_cm_response_timeout": "localresptout",
            "retry_count": "retrcount",
            "partition_key": "pkey",
            "path_mtu": "pppmtu",
            "rdc_exists": "rdcexist",
            "rnr_retry_count": "rnrretrcount",
            "max_cm_retries": "maxcmretr",
            "srq": "srq",
            "extended_transport_type": "ext_transport",
            "primary_local_lid": "prim_locallid",
            "primary_remote_lid": "prim_remotelid",
            "primary_local_gid": ("prim_localgid", "prim_localgid_ipv4"),
            "primary_remote_gid": ("prim_remotegid", "prim_remotegid_ipv4"),
            "primary_flow_label": "prim_flowlabel",
            "reserved_90": "prim_reserved0",
            "primary_packet_rate": "prim_pktrate",
            "primary_traffic_class": "prim_tfcclass",
            "primary_hop_limit": "prim_hoplim",
            "primary_sl": "prim_sl",
            "primary_subnet_local": "prim_subnetlocal",
            "reserved_94": "prim_reserved1",
            "primary_local_ack_timeout": "prim_localacktout",
            "reserved_95": "prim_reserved2",
            "alternate_local_lid": "alt_locallid",
            "alternate_remote_lid": "alt_remotelid",
            "alternate_local_gid": "alt_localgid",
            "alternate_remote_gid": "alt_remotegid",
            "alternate_flow_label": "alt_flowlabel",
            "reserved_134": "alt_reserved0",
            "alternate_packet_rate": "alt_pktrate",
            "alternate_traffic_class": "alt_tfcclass",
            "alternate_hop_limit": "alt_hoplim",
            "alternate_sl": "alt_sl",
            "alternate_subnet_local": "alt_subnetlocal",
            "reserved_138": "alt_reserved1",
            "alternate_local_ack_timeout": "alt_localacktout",
            "private_data": ("private", "ip_cm"),
        },
    ),
    "RDMA_IP_CM": (
        "infiniband.cm.req.ip_cm",
        {
            "major_version": "majv",
            "minor_version": "minv",
            "ip_version": "ipv",
            "reserved_1": "reserved",
            "source_port": "sport",
            "source": ("sip4", "sip6"),
            "destination": ("dip4", "dip6"),
        },
    ),
    "CM_REP": (
        "infiniband.cm.rep",
        {
            "local_comm_id": "",
            "remote_comm_id": "remotecommid",
            "local_q_key": "localqkey",
            "local_qpn": "localqpn",
            "local_eecn": "localeecn",
            "starting_psn": "startpsn",
            "responder_resources": "respres",
            "initiator_depth": "initdepth",
            "target_ack_delay": "tgtackdelay",
            "failover_accepted": "failoveracc",
            "end_to_end_flow_control": "e2eflowctrl",
            "rnr_retry_count": "rnrretrcount",
            "srq": "srq",
            "reserved_27": "reserved",
            "local_ca_guid": "localcaguid",
            "private_data": "private",
        },
    ),
    "CM_RTU": ("infiniband.cm.rtu", _PAIRED),
    "CM_REJ": (
        "infiniband.cm.rej",
        {
            **_PAIRED,
            "message_rejected": "msgrej",
            "reserved_8": "reserved0",
            "reject_info_length": "rejinfolen",
            "reserved_9": "reserved1",
            "reason": "reason",
            "additional_reject_info": "ari",
        },
    ),
    "CM_DREQ": ("infiniband.cm.dreq", _PAIRED),
    "CM_DREP": ("infiniband.cm.drsp", _PAIRED),  # "DRSP" is Wireshark's word for it
}


def _full_names(prefix: str, names: str | tuple[str, ...]) -> tuple[str, ...]:
    return tuple(f"{prefix}.{name}".rstrip(".") for name in ((names,) if isinstance(names, str) else names))


WIRESHARK: dict[Field, tuple[str, ...]] = {
    (layer, ours): _full_names(prefix, theirs)
    for layer, (prefix, fields) in _LAYERS.items()
    for ours, theirs in fields.items()
} | {
    ("BTH", "icrc"): ("infiniband.invariant.crc",),
    ("LRH", "vcrc"): ("infiniband.variant.crc",),
    ("CM_DREQ", "remote_qpn"): ("infiniband.cm.dreq.remoteqpneecn", MISPLACED_QPN),
}

LAYERS = frozenset(layer for layer, _ in WIRESHARK)
