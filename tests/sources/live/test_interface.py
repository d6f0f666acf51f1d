"""`iface:` on real interfaces, a pair of them in a network namespace: what goes in at one, comes out at the other."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path
from threading import Event
from types import SimpleNamespace
from typing import Any

import pytest
from scapy.layers.inet import IP, UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Dot1AD, Dot1Q, Ether
from scapy.packet import Packet, Raw
from sources.live.programs import PATIENCE, told

import dissectors.encapsulation  # noqa: F401 (it binds the layers)
from dissectors.cm import CM_REQ
from dissectors.mad import MAD
from dissectors.transport import BTH, DETH, GRH
from ibcmtool.packets import Frame
from ibcmtool.sources.errors import SourceError
from ibcmtool.sources.files import open_capture
from ibcmtool.sources.live.interface.source import InterfaceSource

LINKS = [Raw(), Dot1Q(vlan=7), Dot1AD(vlan=7) / Dot1Q(vlan=77), Dot1Q(vlan=7) / Dot1Q(vlan=77)]
NETWORKS = [
    GRH(sgid="fe80::2", dgid="fe80::1"),
    IP(src="10.77.0.2", dst="10.77.0.1") / UDP(),
    IPv6(src="fd77::2", dst="fd77::1") / UDP(),
]


def req(number: int) -> Packet:
    return (
        BTH(psn=number)
        / DETH(source_qp=1)
        / MAD(tid=number)
        / CM_REQ(local_comm_id=number, local_qpn=number, local_ca_guid=2, service_id=0x1061144)
    )


def wanted(ether: Packet) -> list[bytes]:
    """A REQ in each version of RoCE, behind no tag, one, and two."""
    headers = [ether / link / network if link != Raw() else ether / network for link in LINKS for network in NETWORKS]
    return [bytes(header / req(0x100 + number)) for number, header in enumerate(headers)]


def unwanted(ether: Packet) -> list[bytes]:
    packets = []
    for link in LINKS:
        header = ether / link if link != Raw() else ether
        packets += [
            header / IP() / UDP(dport=4792) / req(1),
            header / IPv6() / UDP(dport=53) / req(1),
            header / NETWORKS[0] / BTH(dest_qp=0x010001) / DETH() / Raw(bytes(256)),
            header / NETWORKS[1] / BTH(opcode=4, dest_qp=0x11) / Raw(bytes(1024)),
            header / NETWORKS[2] / BTH() / DETH(source_qp=1) / MAD(mgmt_class=3) / Raw(bytes(232)),
            header / IP(frag=1, proto=17) / Raw(bytes(UDP() / req(1))),
        ]
    return [bytes(packet) for packet in packets]


@pytest.fixture(autouse=True)
def _libpcap(require_tool: Callable[[str], str]) -> None:
    """The library that captures; Debian has it apart from the tools that use it."""
    try:
        import scapy.libs.winpcapy  # noqa: F401
    except OSError:
        require_tool("libpcap")


@pytest.fixture
def ether(namespace: Any) -> Packet:
    """What frames from va to vb begin with."""
    return Ether(src=namespace.mac("va"), dst=namespace.mac("vb"))


@pytest.fixture
def live(
    namespace: Any, start: Callable[..., subprocess.Popen[str]], ready: Callable[[], None]
) -> Callable[..., subprocess.Popen[str]]:
    """`ibcmtool live` in the namespace, once it says that it is ready."""

    def live(*arguments: object) -> subprocess.Popen[str]:
        process = start(namespace.command(sys.executable, "-m", "ibcmtool", "live", *arguments))
        ready()
        return process

    return live


@pytest.mark.parametrize(("interface", "direction"), [("vb", "in"), ("va", "out")])
def test_exactly_the_cm_messages_are_seen(
    interface: str,
    direction: str,
    namespace: Any,
    ether: Packet,
    live: Callable[..., subprocess.Popen[str]],
    tmp_path: Path,
) -> None:
    """On the side that sends, tags are still in the frame; on the other the kernel has taken the outer one away."""
    sent = wanted(ether)
    process = live(f"iface:{interface}", "--format", "jsonl", "--write", tmp_path / "seen.pcapng")
    begun = time.time_ns()
    namespace.send(unwanted(ether) + sent + unwanted(ether))
    objects = told(process, len(sent))
    assert process.returncode == 0
    (counted,) = (one for one in objects if one["kind"] == "input")
    assert (counted["frames"], counted["cm_messages"]) == (len(sent), len(sent))
    assert {one["direction"] for one in objects if one["kind"] == "event"} == {direction}
    frames = written(tmp_path / "seen.pcapng")
    assert [frame.data for frame in frames] == sent
    assert all(begun < frame.time < time.time_ns() for frame in frames)
    assert any(frame.time % 1000 for frame in frames)  # nanoseconds


def written(path: Path) -> list[Frame]:
    with open_capture(str(path), 0) as capture:
        return list(capture)


def test_any_interface(namespace: Any, ether: Packet, live: Callable[..., subprocess.Popen[str]]) -> None:
    """Each packet passes both interfaces, and is one message. Of tagged ones the kernel hides the way out."""
    sent = wanted(ether)[: 2 * len(NETWORKS)]
    process = live("iface:any", "--format", "jsonl", "--duration", "3s")
    namespace.send(unwanted(ether) + sent)
    objects = told(process, 1000)
    events = [one for one in objects if one["kind"] == "event"]
    assert [event["connection"] for event in events] == list(range(1, len(sent) + 1))
    assert {event["direction"] for event in events[: len(NETWORKS)]} == {"out"}
    (counted,) = (one for one in objects if one["kind"] == "input")
    assert 3 * len(NETWORKS) <= counted["frames"] <= 4 * len(NETWORKS)
    assert "X05" in [one.get("code") for one in objects]
    assert process.stderr is not None
    assert "counts once (X05)" in process.stderr.read()


def test_neither_end_is_ours(namespace: Any, live: Callable[..., subprocess.Popen[str]]) -> None:
    """A mirror port."""
    sent = wanted(Ether(src="52:54:00:00:00:01", dst="52:54:00:00:00:02"))
    process = live("iface:vb", "--format", "jsonl")
    namespace.send(sent)
    events = [one for one in told(process, len(sent)) if one["kind"] == "event"]
    assert [event["direction"] for event in events] == len(sent) * [None]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_it(number: signal.Signals, namespace: Any, live: Callable[..., subprocess.Popen[str]]) -> None:
    process = live("iface:vb")
    process.send_signal(number)
    out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0
    assert out.lstrip().startswith("iface:vb  live, 0 frames")
    assert not err
    assert namespace.run("cat", "/proc/net/packet").count("\n") == 1  # a header, and no packet socket


SLOW = """
    import sys
    from threading import Event, Thread
    from ibcmtool.sources.live.interface.source import InterfaceSource

    source = InterfaceSource("iface:vb", "vb", buffer_size=1 << 17)
    frames, stop = [], Event()
    source.open()
    print("open", flush=True)
    sys.stdin.readline()  # nothing is read meanwhile
    thread = Thread(target=source.run, args=(frames.extend, stop, ()))
    thread.start()
    sys.stdin.readline()
    stop.set()
    thread.join()
    source.close()
    print(len(frames), source.dropped)
"""


def test_what_is_lost_is_counted(namespace: Any, ether: Packet, start: Callable[..., subprocess.Popen[str]]) -> None:
    """More frames come than the kernel may hold, and nobody reads."""
    process = start(namespace.command(sys.executable, "-c", textwrap.dedent(SLOW)), stdin=subprocess.PIPE)
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stdout.readline() == "open\n"
    sent = wanted(ether)
    namespace.send(unwanted(ether) + sent, times=200)
    process.stdin.write("read\n")
    process.stdin.flush()
    time.sleep(1)
    out, err = process.communicate("stop\n", timeout=PATIENCE)
    assert not err
    seen, dropped = map(int, out.split())
    assert seen > 50
    assert dropped > 50
    assert seen + dropped == 200 * len(sent)


def test_an_interface_that_goes_down_and_comes_back(
    namespace: Any, ether: Packet, live: Callable[..., subprocess.Popen[str]]
) -> None:
    process = live("iface:vb", "--format", "jsonl")
    namespace.run("ip", "link", "set", "vb", "down")
    namespace.run("ip", "link", "set", "vb", "up")
    namespace.send(wanted(ether))
    events = [one for one in told(process, len(wanted(ether))) if one["kind"] == "event"]
    assert len(events) == len(wanted(ether))
    assert process.returncode == 0


def test_an_interface_that_is_removed(namespace: Any, live: Callable[..., subprocess.Popen[str]]) -> None:
    process = live("iface:vb", "--lines")
    namespace.run("ip", "link", "delete", "vb")
    _, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 2
    assert err == "ibcmtool: iface:vb: capturing ended: The interface disappeared; check ip link\n"


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("iface:vx", "iface:vx: there is no such interface; there are lo, vb, va, any"),
        ("iface:", "iface:: names no interface; there are lo, vb, va, any"),
        ("iface:down0", "iface:down0: the interface is down; run ip link set down0 up"),
        (f"iface:{'v' * 40}", f"iface:{'v' * 40}: there is no such interface; there are lo, vb, va, any"),
    ],
)
def test_refusals(source: str, says: str, namespace: Any, start: Callable[..., subprocess.Popen[str]]) -> None:
    if "down0" in source:
        namespace.run("ip", "link", "add", "down0", "type", "veth", "peer", "name", "down1")
    process = start(namespace.command(sys.executable, "-m", "ibcmtool", "live", source))
    _, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 2
    assert err == f"ibcmtool: {says}\n"


def test_without_permission(
    namespace: Any, require_tool: Callable[[str], str], start: Callable[..., subprocess.Popen[str]]
) -> None:
    weak = [require_tool("setpriv"), "--bounding-set", "-net_raw", "--inh-caps", "-net_raw"]
    process = start(namespace.command(*weak, sys.executable, "-m", "ibcmtool", "live", "iface:va"))
    _, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 2
    assert err.startswith("ibcmtool: iface:va: capturing needs the capability CAP_NET_RAW; run it with sudo, or")
    assert err.count("\n") == 1


def test_without_libpcap(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ctypes.util.find_library", lambda name: None)
    for module in [name for name in sys.modules if name.startswith("scapy.libs")]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.delattr("scapy.libs.winpcapy", raising=False)
    with pytest.raises(SourceError, match=r"^iface:lo: libpcap is not installed; apt install libpcap0.8, or dnf "):
        InterfaceSource("iface:lo", "lo").open()


@pytest.fixture
def sysfs(tmp_path: Path) -> Callable[..., Path]:
    """The sysfs of a host with one RDMA device on lo."""

    def made(device: str, driver: str | None = None) -> Path:
        place = tmp_path / "sys/class/infiniband" / device
        (place / "ports/1/gid_attrs/ndevs").mkdir(parents=True)
        (place / "ports/1/gid_attrs/ndevs/0").write_text("lo\n")
        (place / "ports/1/link_layer").write_text("Ethernet\n")
        (place / "ports/1/cm_rx_msgs").mkdir()
        (place / "node_type").write_text("1: CA\n")
        if driver is not None:
            (place / "device").mkdir()
            (tmp_path / driver).mkdir()
            (place / "device/driver").symlink_to(tmp_path / driver)
        return tmp_path

    return made


def can_capture() -> bool:
    if os.geteuid() == 0:
        return True
    if os.environ.get("CI") == "true":
        pytest.fail("capturing needs root")
    pytest.skip("capturing needs root")


def test_an_rdma_device_that_libpcap_cannot_capture_from(sysfs: Callable[..., Path]) -> None:
    source = InterfaceSource("iface:rxe0", "rxe0", root=sysfs("rxe0"))
    with pytest.raises(SourceError) as refused:
        source.open()
    assert str(refused.value) == (
        "iface:rxe0: is an RDMA device, and the libpcap of this host was built without RDMA support; "
        "use ibcmtool live iface:lo, or ibcmtool counters (numbers only)"
    )


def test_an_adapter_that_shows_no_packets(sysfs: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> None:
    can_capture()
    monkeypatch.setattr("ibcmtool.sources.live.interface.source.SUSPICIOUS", 0.0)
    source = InterfaceSource("iface:lo", "lo", root=sysfs("mlx5_0", "mlx5_core"))
    source.open()
    try:
        unseen = "mlx5_0 takes its RoCE packets off the wire unseen by the host; use ibcmtool counters (numbers only)"
        assert source.silence == unseen
        stop = SimpleNamespace(is_set=iter([False, True]).__next__)  # one round
        source.run(lambda frames: None, stop, ())  # type: ignore[arg-type]
        assert source.notes == [f"iface:lo: no CM message in 0 s; {unseen}"]
    finally:
        source.close()


def test_closed_while_it_runs() -> None:
    """The session closes a source whose thread does not come back."""
    can_capture()
    source = InterfaceSource("iface:lo", "lo")
    source.open()
    source.close()
    with pytest.raises(AssertionError):
        source.run(lambda frames: None, Event(), ())
