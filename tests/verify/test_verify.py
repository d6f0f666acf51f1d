"""Our decode against tshark's: over every capture that we have, and over messages with random values in every field."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from scapy.layers.inet import IP, UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Dot1Q, Ether
from scapy.packet import Packet

from dissectors import BTH, DETH, ERF, GRH, LRH, MAD
from dissectors.cm import CM_LAYERS
from dissectors.fields import layout
from ibcmtool.sources.files import open_capture
from ibcmtool.verify import Comparison, Difference, TsharkError, comparison, faults, tshark, verify
from ibcmtool.verify.fields import WIRESHARK

ROOT = Path(__file__).resolve().parent.parent.parent
SAMPLES = sorted((ROOT / "captures" / "linux-rxe").glob("*.pcap"))
PUBLIC = [
    "crossing-dreq.pcap",
    "erf-ipoib-cm-infiniband.pcap",
    "erf-rping-native-ib.pcap",
    "no-cm-false-mads.pcap",
    "no-cm-mid-connection.pcap",
    "no-cm-roce-v1-v2.pcap",
    "no-cm-source-port-69.pcap",
    "nvme-discover-late-drep.pcap",
    "passive-dreq-other-tid.pcapng",
]
KNOWN_TO_WIRESHARK = ("REQ", "REP", "RTU", "REJ", "DREQ", "DREP")
SEED = 20061
ETHERNET = Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02")  # without these, Scapy asks the network for them


@pytest.fixture(autouse=True)
def _tshark(require_tool: Callable[[str], str]) -> None:
    require_tool("tshark")


def compare(path: Path) -> Comparison:
    with open_capture(str(path), 0) as capture:
        return verify(str(path), capture)


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.stem)
def test_samples(path: Path) -> None:
    result = compare(path)
    assert result.differences == []
    assert result.frames > 0
    assert result.fields > 20 * result.frames


@pytest.mark.parametrize("name", PUBLIC)
def test_public_captures(name: str, public_captures: Path) -> None:
    result = compare(public_captures / name)
    assert result.differences == []
    assert (result.frames == 0) is name.startswith("no-cm")


def write_pcap(path: Path, link_type: int, frames: Iterable[bytes]) -> None:
    with path.open("wb") as file:
        file.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, link_type))
        for second, frame in enumerate(frames):
            file.write(struct.pack("<IIII", second, 0, len(frame), len(frame)) + frame)


def random_message(kind: str, chance: random.Random) -> Packet:
    """A message with a random value in each of its fields, reserved ones included."""
    layer = CM_LAYERS[kind]
    values = {
        slot.name: chance.getrandbits(slot.width) if slot.kind == "number" else chance.randbytes(slot.width // 8)
        for slot in layout(layer)
    }
    mad = {
        slot.name: chance.getrandbits(slot.width)
        for slot in layout(MAD)
        if slot.name in ("status", "class_specific", "tid", "attribute_modifier")
    }
    transport = {
        slot.name: chance.getrandbits(slot.width)
        for slot in layout(BTH)
        if slot.name in ("solicited_event", "migration_request", "partition_key", "ack_request", "reserved_8", "psn")
    }
    return BTH(**transport) / DETH() / MAD(**mad) / layer(**values)


def envelopes(chance: random.Random) -> dict[str, Packet]:
    grh = {"flow_label": chance.getrandbits(20), "traffic_class": chance.getrandbits(8), "hop_limit": 7}
    grh |= {"sgid": chance.randbytes(16), "dgid": chance.randbytes(16)}
    return {
        "RoCE v2": ETHERNET / IP(src="10.0.0.1", dst="10.0.0.2") / UDP(sport=0xC123),
        "RoCE v2 over IPv6": ETHERNET / Dot1Q(vlan=7) / IPv6(src="fd00::1", dst="fd00::2") / UDP(sport=0xC123),
        "RoCE v1": ETHERNET / GRH(**grh),
    }


@pytest.mark.parametrize("envelope", ["RoCE v1", "RoCE v2", "RoCE v2 over IPv6", "InfiniBand", "InfiniBand with GRH"])
def test_random_values_in_every_field(envelope: str, tmp_path: Path) -> None:
    chance = random.Random(f"{SEED} {envelope}")
    path = tmp_path / "random.pcap"
    frames = []
    for kind in KNOWN_TO_WIRESHARK * 10:
        message = random_message(kind, chance)
        if envelope.startswith("InfiniBand"):
            link = {"vl": chance.getrandbits(4), "service_level": chance.getrandbits(4)}
            lids = {"dlid": chance.getrandbits(16), "slid": chance.getrandbits(16)}
            below = LRH(**link, **lids)
            if "GRH" in envelope:
                below /= GRH(sgid="fe80::1", dgid="fe80::2")
            frames.append(bytes(ERF() / below / message))
        else:
            frames.append(bytes(envelopes(chance)[envelope] / message))
    write_pcap(path, 197 if envelope.startswith("InfiniBand") else 1, frames)
    result = compare(path)
    assert result.differences == []
    assert result.frames == len(frames)
    assert result.fields > 20 * len(frames)


def test_every_field_of_the_map_is_compared(tmp_path: Path) -> None:
    """A name that tshark does not know would silently compare nothing."""
    chance = random.Random(SEED)
    path = tmp_path / "all.pcap"
    frames = [bytes(envelopes(chance)["RoCE v1"] / random_message(kind, chance)) for kind in KNOWN_TO_WIRESHARK]
    ip_cm = bytes.fromhex("0040 c001 000000000000000000000000 0a000001 000000000000000000000000 0a000002")
    request = CM_LAYERS["REQ"](service_id=0x0000000001061C06, primary_local_gid="10.0.0.1", private_data=ip_cm)
    frames.append(bytes(envelopes(chance)["RoCE v2"] / BTH() / DETH() / MAD() / request))
    write_pcap(path, 1, frames)
    native = tmp_path / "native.pcap"
    write_pcap(native, 197, [bytes(ERF() / LRH() / random_message("RTU", chance))])
    shown = {name for file in (path, native) for frame in tshark.shown(str(file)) for name in frame.fields}
    never = {key for key, names in WIRESHARK.items() if not shown & set(names)}
    assert never == set()


def test_a_wrong_value_of_ours_is_a_difference(captures: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    layers = comparison.detail.layers

    def wrong(packet: Packet) -> Iterable[object]:
        for layer in layers(packet):
            changed = [
                field._replace(value=field.value + 1) if (layer.layer, field.name) == ("CM_REJ", "reason") else field
                for field in layer.fields
            ]
            yield layer._replace(fields=tuple(changed))

    monkeypatch.setattr(comparison.detail, "layers", wrong)
    result = compare(captures / "no_listener_rej.pcap")
    assert result.differences == [
        Difference(2, "CM_REJ.reason, layer and bulk reader", "9 (0x9)", "(reader) 8 (0x8)"),
        Difference(2, "CM_REJ.reason", "9 (0x9)", "8 (0x8)"),
    ]


def test_a_wrong_value_of_wireshark_is_a_difference(captures: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = tshark.shown

    def wrong(path: str) -> Iterable[tshark.Shown]:
        for frame in shown(path):
            changes = {"infiniband.cm.req.prim_flowlabel": "1", "infiniband.cm.req.prim_localgid_ipv4": "0a4d0003"}
            yield frame._replace(fields=frame.fields | {k: v for k, v in changes.items() if k in frame.fields})

    monkeypatch.setattr(comparison.tshark, "shown", wrong)
    result = compare(captures / "no_listener_rej.pcap")
    assert [(one.frame, one.field) for one in result.differences] == [
        (1, "CM_REQ.primary_local_gid"),
        (1, "CM_REQ.primary_flow_label"),
    ]


def test_a_frame_that_only_one_side_takes_for_a_cm_message(captures: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = tshark.shown
    monkeypatch.setattr(comparison.tshark, "shown", lambda path: (one for one in shown(path) if one.number != 1))
    assert compare(captures / "no_listener_rej.pcap").differences == [Difference(1, "frame", "CM message", "none")]
    monkeypatch.undo()

    class Blind:
        def __call__(self, frame: object) -> None:
            return None

    monkeypatch.setattr(comparison, "Decoder", Blind)
    assert [one.ours for one in compare(captures / "no_listener_rej.pcap").differences] == ["no CM message"] * 2


def test_known_faults_are_explained(tmp_path: Path) -> None:
    path = tmp_path / "faults.pcap"
    below = ETHERNET / IP(src="10.0.0.1", dst="10.0.0.2") / UDP(sport=0xC123)
    head = BTH() / DETH() / MAD()
    request = CM_LAYERS["REQ"](
        primary_flow_label=0xABCDE,
        primary_packet_rate=3,
        alternate_packet_rate=5,
        primary_local_gid="fe80::1",
        primary_remote_gid="::ffff:10.0.0.2",
    )
    reject = CM_LAYERS["REJ"](reserved_8=0x3D)
    release = CM_LAYERS["DREQ"](remote_qpn=0x123456)
    foreign = BTH(dest_qp=0x42) / DETH(q_key=0x11111111) / bytes(MAD() / CM_LAYERS["RTU"]())
    packets = [*(below / head / message for message in (request, reject, release)), below / foreign]
    write_pcap(path, 1, map(bytes, packets))
    result = compare(path)
    assert result.differences == []
    # Flow label and reserved bits of the first path, one GID; REJ; DREQ; the foreign packet; the rates of both paths.
    rates = len(faults.known(("CM_REQ", "primary_packet_rate"), result.tshark_version)) * 2
    assert result.faults.total() == 6 + rates
    assert result.faults[faults.MISPLACED] == 1
    assert result.faults[faults.NOT_A_MAD] == 1


def test_wireshark_is_not_blamed_where_our_layers_do_not_reach(tmp_path: Path) -> None:
    """PPPoE: it sees the message, we see an unknown EtherType."""
    path = tmp_path / "pppoe.pcap"
    inner = bytes(IP(src="10.0.0.1", dst="10.0.0.2") / UDP(sport=0xC123) / BTH() / DETH() / MAD() / CM_LAYERS["RTU"]())
    session = struct.pack("!BBHHH", 0x11, 0, 1, len(inner) + 2, 0x0021)
    write_pcap(path, 1, [bytes(ETHERNET)[:12] + b"\x88\x64" + session + inner])
    result = compare(path)
    assert result.differences == [Difference(1, "frame", "no CM message", "CM message")]
    assert not result.faults


@pytest.mark.parametrize(
    ("version", "reserved", "rate"),
    [("4.0.17", [2], [0x2B]), ("4.4.0rc1", [3], []), ("4.4.19", [3], []), ("5.0", [3], [])],
)
def test_a_fault_is_known_in_the_versions_that_have_it(version: str, reserved: list[int], rate: list[int]) -> None:
    values = {"primary_flow_label": 0xABCDE}
    for name, shown in (("reserved_90", reserved), ("primary_packet_rate", rate)):
        assert [fault.predicted(values) for fault in faults.known(("CM_REQ", name), version)] == shown


def test_the_fault_of_another_version_explains_nothing(captures: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = "4.4.19" if tshark.version().startswith("4.0.") else "4.0.17"
    monkeypatch.setattr(comparison.tshark, "version", lambda: other)
    different = {one.field for one in compare(captures / "rping.pcap").differences}
    assert "CM_REQ.reserved_90" in different


def test_cut_frames(captures: Path, tmp_path: Path) -> None:
    """Cut inside the BTH, the MAD header, the message: what both still see must agree."""
    data = (captures / "no_listener_rej.pcap").read_bytes()
    frame = data[40 : 40 + 322]
    path = tmp_path / "cut.pcap"
    for length in (50, 62, 80, 100, 140, 200, 321):
        header = struct.pack("<IIII", 1, 0, length, len(frame))
        path.write_bytes(data[:24] + header + frame[:length])
        result = compare(path)
        assert [one for one in result.differences if one.wireshark != "none"] == [], length


def test_no_processes_stay_behind(captures: Path) -> None:
    frames = tshark.shown(str(captures / "cmtime_500conn.pcap"))
    assert next(frames).number == 1
    frames.close()
    children = Path("/proc/thread-self/children").read_text().split()
    names = [Path(f"/proc/{child}/comm").read_text().strip() for child in children]
    assert "tshark" not in names


def test_a_file_that_tshark_cannot_read(tmp_path: Path) -> None:
    path = tmp_path / "none.pcap"
    path.write_bytes(b"This is no capture at all, and long enough to be sure of it.\n" * 8)
    with pytest.raises(TsharkError, match="tshark cannot read it"):
        list(tshark.shown(str(path)))


def test_without_tshark(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(TsharkError, match="tshark is not installed"):
        tshark.version()
