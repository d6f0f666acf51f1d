"""What a redacted report keeps, and what it must not hold."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scapy.layers.inet import ICMP, IP, UDP
from scapy.layers.l2 import Ether
from scapy.packet import Raw

from dissectors.fields import gid_bytes
from ibcmtool.analysis import Finding
from ibcmtool.engine.files import analyze
from ibcmtool.packets import CmMessage, Frame, Undelivered
from ibcmtool.redaction import Redactor
from ibcmtool.redaction.pseudonyms import Pseudonyms
from ibcmtool.sources.files import open_capture
from ibcmtool.wire.decode import Decoder
from ibcmtool.wire.notices import notice

CAPTURES = Path(__file__).resolve().parents[2] / "captures" / "linux-rxe"
NAMES = sorted(path.name for path in CAPTURES.iterdir())


def essence(finding: Finding) -> tuple[object, ...]:
    return finding.code, finding.severity, finding.confidence, finding.connection, finding.related, finding.frames


@pytest.mark.parametrize("name", NAMES)
def test_the_verdict_is_the_same(name: str) -> None:
    path = str(CAPTURES / name)
    plain, redacted = analyze([path]), analyze([path], redact=True)
    assert [essence(finding) for finding in redacted.findings] == [essence(finding) for finding in plain.findings]
    assert [(one.id, one.outcome, one.history, one.service_id) for one in redacted.connections] == [
        (one.id, one.outcome, one.history, one.service_id) for one in plain.connections
    ]


def test_the_same_name_each_time() -> None:
    names = Pseudonyms()
    first = names.gid(gid_bytes("10.0.0.1"))
    second = names.gid(gid_bytes("10.0.0.2"))
    assert (first, second) == (gid_bytes("192.0.2.1"), gid_bytes("192.0.2.2"))
    assert names.gid(gid_bytes("10.0.0.1")) == first
    assert names.ipv4(bytes((10, 0, 0, 1))) == first[12:]  # wherever the address stands
    assert names.gid(bytes(12) + bytes((10, 0, 0, 1))) == bytes(12) + first[12:]


def test_what_names_nobody_stays() -> None:
    names = Pseudonyms()
    for gid in (bytes(16), gid_bytes("ff02::1")):
        assert names.gid(gid) == gid
    assert names.guid(0) == 0
    assert names.mac(b"\xff" * 6) == b"\xff" * 6
    assert [names.lid(lid) for lid in (0, 0xFFFF, 0xC001)] == [0, 0xFFFF, 0xC001]


def test_a_link_local_address_stays_that_of_its_mac() -> None:
    names = Pseudonyms()
    mac = names.mac(bytes.fromhex("525400aa0001"))
    assert mac == bytes.fromhex("020000000001")
    assert names.gid(gid_bytes("fe80::5054:ff:feaa:1")) == gid_bytes("fe80::ff:fe00:1")


@given(st.sets(st.integers(1, (1 << 32) - 2), max_size=900))
def test_no_two_get_the_same_name(addresses: set[int]) -> None:
    names = Pseudonyms()
    given_names = {names.ipv4(address.to_bytes(4, "big")) for address in addresses}
    assert len(given_names) == len(addresses)


def frames(name: str) -> list[Frame]:
    with open_capture(str(CAPTURES / name), 0) as capture:
        return list(capture)


def test_checksums_stay_right() -> None:
    redact, decode = Redactor(), Decoder()
    messages = [decode(redact(frame)) for frame in frames("rping.pcap")]
    checks = [message.icrc_ok for message in messages if isinstance(message, CmMessage)]
    assert checks == [True] * 5


def test_a_wrong_checksum_stays_wrong() -> None:
    frame = frames("no_listener_rej.pcap")[0]
    broken = frame._replace(data=frame.data[:-1] + bytes((frame.data[-1] ^ 1,)))
    message = Decoder()(Redactor()(broken))
    assert isinstance(message, CmMessage)
    assert message.icrc_ok is False


@given(st.data())
def test_cut_and_mutated_frames(data: st.DataObject) -> None:
    """Nothing raises, the length stays, and a message stays a message of its type."""
    frame = data.draw(st.sampled_from(SOME))
    content = bytearray(frame.data[: data.draw(st.integers(0, len(frame.data)))])
    for _ in range(data.draw(st.integers(0, 3))):
        if content:
            content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    mutated = frame._replace(data=bytes(content))
    redacted = Redactor()(mutated)
    before, after = Decoder()(mutated), Decoder()(redacted)
    assert len(redacted.data) in (0, len(content))
    assert type(before) is type(after)
    if isinstance(before, CmMessage) and isinstance(after, CmMessage):
        assert (before.type, before.tid, before.psn, len(before.mad)) == (
            after.type,
            after.tid,
            after.psn,
            len(after.mad),
        )


SOME = [frame for name in ("rping_ipv6.pcap", "srp_login_rejected.pcap", "udaddy_sidr.pcap") for frame in frames(name)]


def test_other_frames_come_empty() -> None:
    """A TCP packet has no place in the report, and its summary would tell its addresses."""
    frame = frames("rping.pcap")[0]
    tcp = frame._replace(data=frame.data[:23] + b"\x06" + frame.data[24:])
    assert Redactor()(tcp).data == b""


def test_an_icmp_error_names_the_same_hosts() -> None:
    """Not what it quotes of the packet itself."""
    names = Redactor()
    sent = IP(src="10.77.0.2", dst="10.77.0.1") / UDP(sport=50000, dport=4791) / Raw(b"secret" * 9)
    data = bytes(Ether(dst="52:54:00:aa:00:01") / IP(src="10.77.0.1", dst="10.77.0.2") / ICMP(type=3, code=3) / sent)
    redacted = names(Frame(0, 1, 0, 1, data, len(data)))
    told, before = notice(redacted), notice(Frame(0, 1, 0, 1, data, len(data)))
    assert isinstance(told, Undelivered)
    assert isinstance(before, Undelivered)
    assert (told.reporter, told.reason) == (told.destination, "port")
    assert told.source not in (told.destination, before.source)
    assert len(redacted.data) == len(data)
    assert b"secret" not in redacted.data
