"""`umad` on simulated InfiniBand adapters, and what it says on hosts where it cannot work."""

from __future__ import annotations

import errno
import os
import signal
import socket
import struct
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest
from scapy.packet import Packet
from sources.live.programs import PATIENCE, told

from dissectors.cm import CM_DREQ, CM_REQ, CM_RTU
from dissectors.mad import MAD
from ibcmtool.packets import IPV4_MAPPED, Address, CmMessage, Frame
from ibcmtool.sources.errors import SourceError
from ibcmtool.sources.files import open_capture
from ibcmtool.sources.live.umad import abi
from ibcmtool.sources.live.umad.source import UmadSource
from ibcmtool.wire.decode import Decoder

CARRIED = slice(0, 8), slice(12, 224)  # what umad2sim leaves as it is: the TransactionID begins with the agent's number
IDS = {"local_comm_id": 0x1C2B0001, "remote_comm_id": 0x5A000002}


def mads() -> list[bytes]:
    """What a peer sends in the course of a connection."""
    messages: list[Packet] = [
        MAD(tid=1) / CM_REQ(local_comm_id=IDS["local_comm_id"], local_qpn=0x11, service_id=0x1061144),
        MAD(tid=1) / CM_RTU(**IDS),
        MAD(tid=2) / CM_DREQ(**IDS, remote_qpn=0x22),
    ]
    return [bytes(message).ljust(256, b"\0") for message in messages]


@pytest.fixture
def live(fabric: Any, start: Callable[..., subprocess.Popen[str]]) -> Callable[..., subprocess.Popen[str]]:
    """`ibcmtool live` at HcaA."""

    def live(*arguments: object) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "ibcmtool", "live", *map(str, arguments)]
        return start(command, fabric.host("HcaA"), cwd=fabric.place)

    return live


@pytest.mark.parametrize("name", ["umad", "umad:ibsim0", "umad:ibsim0:1"])
def test_what_is_sent_to_this_port_is_seen(
    name: str,
    fabric: Any,
    live: Callable[..., subprocess.Popen[str]],
    ready: Callable[[], None],
    tmp_path: Path,
) -> None:
    process = live(name, "--format", "jsonl", "--write", tmp_path / "seen.pcapng")
    ready()
    fabric.send("HcaB", mads(), 3)
    events = [one for one in told(process, 3) if one["kind"] == "event"]
    assert [(one["type"], one["direction"], one["connection"]) for one in events] == [
        ("REQ", "in", 1),
        ("RTU", "in", 1),
        ("DREQ", "in", 1),
    ]
    with open_capture(str(tmp_path / "seen.pcapng"), 0) as capture:
        messages = [decoded(frame) for frame in capture]
    for part in CARRIED:
        assert [message.mad[part] for message in messages] == [mad[part] for mad in mads()]
    assert {(message.transport, message.source, message.destination) for message in messages} == {
        ("InfiniBand", Address(None, 4), Address(None, 3))
    }


def decoded(frame: Frame) -> CmMessage:
    message = Decoder()(frame)
    assert isinstance(message, CmMessage)
    return message


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it(
    number: signal.Signals, live: Callable[..., subprocess.Popen[str]], ready: Callable[[], None]
) -> None:
    process = live("umad", "--lines")
    ready()
    process.send_signal(number)
    out, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0
    assert "umad  live, 0 frames" in out


@pytest.mark.parametrize("name", ["umad:ibsim0:2", "umad:mlx5_0"])
def test_a_port_that_is_not_there(name: str, live: Callable[..., subprocess.Popen[str]]) -> None:
    process = live(name)
    _, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 2
    assert err == f"ibcmtool: {name}: there is no such port; there are ibsim0:1\n"


@pytest.mark.parametrize("name", ["umad:", "umad::1", "umad:mlx5_0:x", "umad:mlx5_0:1:2"])
def test_names_of_no_port(name: str) -> None:
    with pytest.raises(SourceError, match="names no port; write umad, umad:mlx5_0 or umad:mlx5_0:1"):
        UmadSource(name, name.partition(":")[2])


class Host:
    """The part of a file system that shows RDMA devices."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._nodes = 0

    def port(
        self, device: str, number: int = 1, *, ethernet: bool = False, managed: bool = False, driver: str = ""
    ) -> Path:
        place = self.root / "sys/class/infiniband" / device
        port = place / "ports" / str(number)
        for folder in (port / "gids", port / "gid_attrs/ndevs"):
            folder.mkdir(parents=True)
        write(place / "node_type", "1: CA")
        write(port / "link_layer", "Ethernet" if ethernet else "InfiniBand")
        write(port / "lid", "0x0" if ethernet else "0x3")
        write(port / "state", "4: ACTIVE")
        write(port / "gids/0", "fe80:0000:0000:0000:5054:00ff:feaa:0001")
        write(port / "gids/1", "0000:0000:0000:0000:0000:ffff:0a4d:0001")
        if ethernet:
            write(port / "gid_attrs/ndevs/0", "eth0")
        if managed:
            (port / "cm_rx_msgs").mkdir()
        if driver:
            (self.root / "drivers" / driver).mkdir(parents=True, exist_ok=True)
            (place / "device").mkdir(exist_ok=True)
            (place / "device/driver").symlink_to(self.root / "drivers" / driver)
        return port

    def umad(self, device: str, number: int = 1, version: int = 5) -> Path:
        """The port's device file, which is not made."""
        name = f"umad{self._nodes}"
        self._nodes += 1
        mads, nodes = self.root / "sys/class/infiniband_mad", self.root / "dev/infiniband"
        (mads / name).mkdir(parents=True)
        nodes.mkdir(parents=True, exist_ok=True)
        write(mads / "abi_version", str(version))
        write(mads / name / "ibdev", device)
        write(mads / name / "port", str(number))
        return nodes / name

    def refusal(self, name: str = "umad") -> str:
        source = UmadSource(name, name.partition(":")[2], self.root)
        with pytest.raises(SourceError) as refused:
            source.open()
        source.close()
        said = str(refused.value)
        assert "\n" not in said
        return said


def write(path: Path, text: str) -> None:
    path.write_text(f"{text}\n")


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


def test_no_device(host: Host) -> None:
    assert host.refusal() == ("umad: this host has no RDMA device; rdma link add rxe0 type rxe netdev eth0 makes one")


def test_no_ib_umad(host: Host) -> None:
    host.port("mlx5_0")
    assert host.refusal() == "umad: ib_umad is not loaded; run modprobe ib_umad"


@pytest.mark.parametrize("loaded", [True, False])
def test_ib_cm_owns_the_class(loaded: bool, host: Host) -> None:
    """Whether ib_umad is loaded or not: it would not help. What does is what this host has."""
    host.port("rxe0", ethernet=True, managed=True)
    (host.root / "sys/kernel/tracing").mkdir(parents=True)
    if loaded:
        host.umad("rxe0")
    assert host.refusal() == (
        "umad: ib_cm owns the CM messages of rxe0:1, and the kernel gives each to one owner; use ibcmtool live kernel, "
        "or ibcmtool live iface:eth0, or ibcmtool counters (numbers only)"
    )


def test_ib_cm_owns_the_class_of_an_adapter(host: Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "ibdump").touch(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    host.port("mlx5_0", managed=True, driver="mlx5_core")
    host.port("hfi1_0", managed=True, driver="hfi1")
    assert host.refusal("umad:mlx5_0").endswith(
        "; use ibdump -d mlx5_0 -i 1 -w - | ibcmtool live -, or ibcmtool counters (numbers only)"
    )
    assert host.refusal("umad:hfi1_0").endswith("; use ibcmtool counters (numbers only)")


def test_an_iwarp_device(host: Host) -> None:
    host.port("siw0", ethernet=True)
    write(host.root / "sys/class/infiniband/siw0/node_type", "4: RNIC")
    assert host.refusal() == "umad: siw0:1 is iWARP, whose connections are TCP's, without CM messages"


def test_another_abi(host: Host) -> None:
    host.port("mlx5_0")
    host.umad("mlx5_0", version=6)
    assert host.refusal() == (
        "umad: ib_umad speaks version 6 of its ABI, 5 expected; ibcmtool sources says what else there is"
    )


def test_no_device_file(host: Host) -> None:
    host.port("mlx5_0")
    node = host.umad("mlx5_0")
    assert host.refusal() == (
        f"umad: {node} does not exist, though ib_umad is loaded; in a container, hand in the device file"
    )


def test_the_device_has_gone(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    """Opening a socket gives the same error (ENXIO) as opening a device file without a device."""
    host.port("mlx5_0")
    node = host.umad("mlx5_0")
    monkeypatch.chdir(node.parent)  # names of sockets are short
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(node.name)
        assert host.refusal() == "umad: mlx5_0:1 has gone; its device was removed or its driver unloaded"


def test_a_file_that_is_no_device(host: Host) -> None:
    host.port("mlx5_0")
    host.umad("mlx5_0").touch()
    assert "umad: mlx5_0:1 cannot be used: Inappropriate ioctl for device; " in host.refusal()


def test_only_root_may_open_it(
    host: Host, require_tool: Callable[[str], str], start: Callable[..., subprocess.Popen[str]]
) -> None:
    host.port("mlx5_0")
    host.umad("mlx5_0").touch(0)
    code = f"""
        from pathlib import Path
        from ibcmtool.sources.live.umad.source import UmadSource
        try:
            UmadSource("umad", "", Path({str(host.root)!r})).open()
        except Exception as error:
            print(error)
    """
    weak = [require_tool("setpriv"), "--bounding-set", "-dac_override,-dac_read_search"] if os.geteuid() == 0 else []
    out, _ = start([*weak, sys.executable, "-c", textwrap.dedent(code)]).communicate(timeout=PATIENCE)
    assert out.endswith("/umad0 may be opened by root only; run sudo ibcmtool live umad\n")


@pytest.mark.parametrize(
    ("number", "says"),
    [
        (errno.EINVAL, "umad: another program, or ib_cm, owns the CM messages of mlx5_0:1, and"),
        (errno.EPERM, "umad: mlx5_0:1 belongs to another network namespace; run it there: ip netns exec NAME "),
    ],
)
def test_what_registering_says(number: int, says: str, host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    """Errors that only a kernel with a device gives."""
    host.port("mlx5_0")
    host.umad("mlx5_0").touch()

    def register(fd: int) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(abi, "register", register)
    assert host.refusal().startswith(says)


class Kernel:
    """Sockets in place of device files: what is written to the other end is read as if ib_umad had given it."""

    def __init__(self) -> None:
        self.ends: dict[str, socket.socket] = {}

    def open_port(self, path: str) -> int:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.setblocking(False)
        self.ends[Path(path).name] = theirs
        return ours.detach()


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> Iterator[Kernel]:
    made = Kernel()
    monkeypatch.setattr(abi, "open_port", made.open_port)
    monkeypatch.setattr(abi, "register", lambda fd: None)
    yield made
    for end in made.ends.values():
        end.close()


def header(lid: int, gid: bytes | None, gid_index: int, size: int, *, path_bits: int = 0) -> bytes:
    numbers = struct.pack("=5I", 0, 0, 0, 0, size + 256)
    there = gid is not None
    address = struct.pack(">2IH6B16sI", 1, 0x80010000, lid, 0, path_bits, there, gid_index, 64, 0, gid or b"", 0)
    return (numbers + address).ljust(size, b"\0")


class Collected:
    """What a source delivers from its thread."""

    def __init__(self, source: UmadSource) -> None:
        self.source = source
        self.frames: list[Frame] = []
        self.stop = Event()
        self.came = Event()
        self.error: BaseException | None = None
        self.thread = Thread(target=self._run)

    def _run(self) -> None:
        try:
            self.source.run(self._take, self.stop, ())
        except BaseException as error:
            self.error = error

    def _take(self, frames: Any) -> None:
        self.frames += frames
        self.came.set()


@contextmanager
def collected_from(source: UmadSource) -> Iterator[Collected]:
    source.open()
    collected = Collected(source)
    collected.thread.start()
    try:
        yield collected
    finally:
        collected.stop.set()
        collected.thread.join(PATIENCE)
        source.close()
        assert not collected.thread.is_alive()


@pytest.mark.parametrize("size", [56, 64])
def test_addresses_of_what_comes(size: int, host: Host, kernel: Kernel) -> None:
    """RoCE v2 by GIDs; InfiniBand by LIDs, with a GRH by both."""
    host.port("mlx5_0", ethernet=True)
    host.port("mlx5_1")
    host.umad("mlx5_0")
    host.umad("mlx5_1")
    with collected_from(UmadSource("umad", "", host.root)) as collected:
        theirs = IPV4_MAPPED + bytes([10, 77, 0, 2])
        kernel.ends["umad0"].send(header(0, theirs, 1, size) + mads()[0])
        kernel.ends["umad1"].send(header(18, None, 0, size) + mads()[1])
        kernel.ends["umad1"].send(header(18, bytes(15) + b"\7", 0, size, path_bits=4) + mads()[2])
    frames = [decoded(frame) for frame in collected.frames]
    own = bytes.fromhex("fe80000000000000505400fffeaa0001")
    assert {(one.type, one.transport, one.source, one.destination) for one in frames} == {
        ("REQ", "RoCE v2", Address(theirs), Address(IPV4_MAPPED + bytes([10, 77, 0, 1]))),
        ("RTU", "InfiniBand", Address(None, 18), Address(None, 3)),
        ("DREQ", "InfiniBand", Address(bytes(15) + b"\7", 18), Address(own, 3 | 4)),
    }
    assert sorted(one.mad for one in frames) == sorted(mads())
    assert {frame.direction for frame in collected.frames} == {"in"}


def test_a_port_that_goes_while_others_stay(host: Host, kernel: Kernel) -> None:
    for device in ("mlx5_0", "mlx5_1"):
        host.port(device)
        host.umad(device)
    with collected_from(UmadSource("umad", "", host.root)) as collected:
        kernel.ends["umad0"].send(header(18, None, 0, 64) + mads()[0])
        kernel.ends["umad0"].close()
        assert collected.came.wait(PATIENCE)
        kernel.ends["umad1"].send(header(18, None, 0, 64) + mads()[1])
        kernel.ends["umad1"].close()
        collected.thread.join(PATIENCE)
    assert [decoded(frame).type for frame in collected.frames] == ["REQ", "RTU"]
    assert collected.source.notes == ["umad: mlx5_0:1 has gone; going on with the others"]
    assert str(collected.error) == "umad: mlx5_1:1 has gone; its device was removed or its driver unloaded"


def test_ports_that_can_be_had_are_used(host: Host, kernel: Kernel) -> None:
    host.port("mlx5_0", managed=True)
    host.port("mlx5_1")
    host.umad("mlx5_0")
    host.umad("mlx5_1")
    with collected_from(UmadSource("umad", "", host.root)) as collected:
        assert list(kernel.ends) == ["umad1"]
    (note,) = collected.source.notes
    assert note == (
        "umad: ib_cm owns the CM messages of mlx5_0:1, and the kernel gives each to one owner; "
        "use ibcmtool counters (numbers only)"
    )
