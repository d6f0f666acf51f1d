"""The truth about every recorded capture: outcomes, histories and findings, exactly these and nothing worse."""

from __future__ import annotations

import pytest

from ibcmtool import services
from ibcmtool.analysis import Finding, InputInfo
from ibcmtool.engine.files import analyze, stream
from ibcmtool.model import Connection
from ibcmtool.sources.files import SourceError
from ibcmtool.values import Duration, FrameNumber, Qpn

CLEAN = ("closed", "QpUDe")
CLOSED_BY_PASSIVE = ("closed", "QpUdE")

# file: connections (outcome, history), findings (code, severity, connection, related, frames)
LINUX_RXE = {
    "rping": ([CLEAN], []),
    "rping_ipv6": ([CLEAN], []),
    "rping_vlan": ([CLEAN], []),
    "ucmatose_10conn": ([CLOSED_BY_PASSIVE] * 10, []),
    "udaddy_sidr": ([("resolved", "Sr")] * 3, []),
    "cmtime_500conn": ([CLEAN] * 500, [("R11", "info", 332, (), (356, 1163))]),
    "no_listener_rej": ([("rejected", "Qj")], []),
    "nvme_connect_disconnect": ([CLEAN] * 2, []),
    "nvme_host_crash_stale": (
        [("stale", "QpUdE"), ("stale", "QpUdE"), ("rejected", "Qj"), ("rejected", "Qj")],
        [
            ("S02", "warning", 3, (1,), (7, 8)),
            ("S02", "warning", 4, (2,), (11, 12)),
            ("X03", "info", 3, (), (4, 7)),
        ],
    ),
    "nvme_invalid_private_data_rej": ([CLOSED_BY_PASSIVE], []),
    "iser_login_logout": ([("closed", "QpUdDeE")], [("X08", "info", 1, (), (4, 5))]),
    "nfs_rdma_mount_umount": ([CLEAN], []),
    "srp_login_rejected": ([("rejected", "Qj")], []),
    "rep_lost_retransmit": ([("closed", "Qp^p^Q^pUDe")], []),
    "rtu_lost": ([("closed", "QpU^p^U^p^UDe")], [("H07", "info", 1, (), (3, 6, 8))]),
    "client_killed": ([CLEAN], []),
    "server_blackhole_req_timeout": ([("timed_out", "Q" + "^Q" * 15)], [("H18", "warning", 1, (), (1, 16))]),
    "timewait_qpn_reuse": (
        [CLEAN] * 3,
        [
            ("T01", "error", 2, (1,), (6,)),
            ("F16", "warning", 2, (1,), (6,)),
            ("S05", "info", 2, (1,), (6, 7)),
        ],
    ),
    "stale_req_dup_dreq_edge": (
        [("stale", "QpUdE"), ("rejected", "Qj"), ("closed", "QpUQDDeDe"), ("partial", "De"), ("partial", "U")],
        [
            ("T05", "error", 3, (), (12,)),
            ("S02", "warning", 2, (1,), (4, 5)),
            ("C02", "info", 4, (), (17, 18)),
            ("C02", "info", 5, (), (19,)),
        ],
    ),
    "mra_rej_rep_retransmit": (
        [("closed", "QpMUDe"), ("rejected", "QpJ"), ("rejected", "Qj")],
        [("T10", "info", 2, (1,), (7,)), ("T10", "info", 3, (1,), (10,))],
    ),
}
PUBLIC = {
    "erf-ipoib-cm-infiniband.pcap": ([("established", "QpU")] * 3, []),
    "erf-rping-native-ib.pcap": ([CLEAN], [("X07", "info", 1, (), (3,))]),
    "nvme-discover-late-drep.pcap": ([CLOSED_BY_PASSIVE], [("X07", "info", 1, (), (1,))]),
    "crossing-dreq.pcap": ([("closed", "QpUdDeE")], [("X08", "info", 1, (), (16, 17))]),
    "passive-dreq-other-tid.pcapng": ([CLOSED_BY_PASSIVE], []),
    "no-cm-false-mads.pcap": ([], []),
    "no-cm-source-port-69.pcap": ([], []),
    "no-cm-mid-connection.pcap": ([], []),
    "no-cm-roce-v1-v2.pcap": ([], []),
}


def check(path, connections, findings, policy="relaxed"):
    analysis = analyze([str(path)], policy)
    assert [(c.outcome, c.history) for c in analysis.connections] == connections
    assert [
        (f.code, f.severity, f.connection, f.related, tuple(frame for _, frame in f.frames)) for f in analysis.findings
    ] == findings
    return analysis


@pytest.mark.parametrize("name", LINUX_RXE)
def test_recorded_on_linux(captures, name):
    check(captures / f"{name}.pcap", *LINUX_RXE[name])


def test_no_sample_capture_lacks_its_truth(captures):
    assert {path.stem for path in captures.glob("*.pcap")} == set(LINUX_RXE)


@pytest.mark.parametrize("name", PUBLIC)
def test_published_by_others(public_captures, name):
    check(public_captures / name, *PUBLIC[name])


def test_a_link_type_that_carries_no_mads_is_refused(public_captures):
    with pytest.raises(SourceError, match=r"link type 242 \(IP over InfiniBand\)"):
        analyze([str(public_captures / "linktype-242-ipoib.pcap")])


def test_reuse_in_timewait_depends_on_the_policy(captures):
    path = captures / "timewait_qpn_reuse.pcap"
    relaxed, strict = analyze([str(path)], "relaxed"), analyze([str(path)], "strict")
    assert [(f.code, f.severity, f.policy) for f in relaxed.findings] == [
        ("T01", "error", "both"),
        ("F16", "warning", "both"),
        ("S05", "info", "relaxed"),
    ]
    assert sorted((f.code, f.severity, f.policy) for f in strict.findings) == [
        ("F16", "warning", "both"),
        ("S05", "error", "strict"),
        ("T01", "error", "both"),
    ]
    (t01,) = [f for f in relaxed.findings if f.code == "T01"]
    assert t01.confidence == "certain"
    assert t01.evidence["timewait_minimum"] == Duration(128_000_000)
    assert round(t01.evidence["reused_after"].ns, -6) == 117_000_000


def test_the_crashed_host_is_told_with_its_numbers(captures):
    analysis = analyze([str(captures / "nvme_host_crash_stale.pcap")])
    first, second = [f for f in analysis.findings if f.code == "S02"]
    assert (first.evidence["qpn"], second.evidence["qpn"]) == (Qpn(0x11), Qpn(0x12))
    assert (first.evidence["dreq_frame"], second.evidence["dreq_frame"]) == (FrameNumber(0, 9), FrameNumber(0, 13))
    assert "reboot" in first.advice
    assert analysis.connections[0].stale_by is analysis.connections[2]


def test_established_before_the_rtu(public_captures):
    """Frame 36 is data of the active side, frame 37 the RTU."""
    analysis = analyze([str(public_captures / "erf-ipoib-cm-infiniband.pcap")])
    connection = analysis.connections[2]
    assert connection.established < connection.steps[2].message.time
    assert connection.first_data["active"].frame == 36


def test_services_in_words(captures):
    def names(capture):
        return [services.connection_service(c) for c in analyze([str(captures / f"{capture}.pcap")]).connections]

    assert names("nvme_connect_disconnect") == ["NVMe/RDMA 4420"] * 2
    assert names("nfs_rdma_mount_umount") == ["NFS/RDMA 20049"]
    assert names("iser_login_logout") == ["iSER 3260"]
    assert names("rping") == ["RDMA TCP 7174"]
    assert names("udaddy_sidr") == ["RDMA UDP 7174"] * 3
    assert names("srp_login_rejected")[0].startswith("SRP")


def test_the_passive_side_closed_the_nvme_port_soon(captures):
    (connection,) = analyze([str(captures / "nvme_invalid_private_data_rej.pcap")]).connections
    dreq = connection.steps[3].message
    assert 0.015 < (dreq.time - connection.opened) / 1e9 < 0.05


def test_stream_gives_the_same_records(captures):
    path = str(captures / "stale_req_dup_dreq_edge.pcap")
    analysis, records = analyze([path]), list(stream([path]))
    assert sorted(c.id for c in records if isinstance(c, Connection)) == [c.id for c in analysis.connections]
    assert {f for f in map(key, records) if f} == {key(f) for f in analysis.findings}
    assert isinstance(records[-1], InputInfo)
    assert records[-1].cm_messages == 19


def key(record):
    return (record.code, record.connection, record.frames) if isinstance(record, Finding) else None


def test_frames_of_several_inputs_are_merged_by_time(captures):
    one, two = str(captures / "rping.pcap"), str(captures / "rping_ipv6.pcap")
    both = analyze([two, one])
    assert len(both.connections) == 2
    opened = [c.opened for c in both.connections]
    assert opened == sorted(opened)
    assert [c.steps[0].message.file for c in both.connections] in ([1, 0], [0, 1])
