"""Places where live sources find real traffic, made by the tests and gone after them: a network namespace, a fabric."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from sources.live.programs import PATIENCE

SENDER = """
    import socket, sys
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as wire:
        wire.bind((sys.argv[1], 0))
        frames = [bytes.fromhex(line) for line in sys.stdin]
        for _ in range(int(sys.argv[2])):
            for frame in frames:
                wire.send(frame)
"""


class Namespace:
    """A network namespace with a pair of interfaces, va and vb: what one sends the other receives."""

    def __init__(self, name: str) -> None:
        self.name = name

    def command(self, *arguments: object) -> list[str]:
        return ["ip", "netns", "exec", self.name, *map(str, arguments)]

    def run(self, *arguments: object, **given: Any) -> str:
        done = subprocess.run(
            self.command(*arguments), capture_output=True, text=True, check=True, timeout=PATIENCE, **given
        )
        return done.stdout

    def mac(self, interface: str) -> bytes:
        return bytes.fromhex(self.run("cat", f"/sys/class/net/{interface}/address").strip().replace(":", ""))

    def send(self, frames: Iterable[bytes], interface: str = "va", times: int = 1) -> None:
        """Whole frames, from a raw socket."""
        lines = "\n".join(frame.hex() for frame in frames)
        self.run(sys.executable, "-c", textwrap.dedent(SENDER), interface, times, input=lines)


@pytest.fixture
def namespace(require_tool: Callable[[str], str]) -> Iterator[Namespace]:
    require_tool("ip")
    made = Namespace(f"ibcmtool-{os.getpid()}")
    done = subprocess.run(["ip", "netns", "add", made.name], capture_output=True, text=True)
    if done.returncode:
        if os.environ.get("CI") == "true":
            pytest.fail(f"no network namespace: {done.stderr}")
        pytest.skip(f"no network namespace: {done.stderr.strip()}")
    try:
        # Nothing of its own is to be on the wire.
        made.run("sh", "-c", "echo 1 | tee /proc/sys/net/ipv6/conf/*/disable_ipv6")
        made.run("ip", "link", "add", "va", "type", "veth", "peer", "name", "vb")
        for interface in ("va", "vb", "lo"):
            made.run("ip", "link", "set", interface, "up")
        yield made
    finally:
        subprocess.run(["ip", "netns", "delete", made.name], check=True)


@pytest.fixture
def ready(tmp_path: Path) -> Iterator[Callable[[], None]]:
    """Waits until the program that was started says that it is ready, as to a service manager."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.settimeout(PATIENCE)

        def wait() -> None:
            assert manager.recv(100) == b"READY=1"

        yield wait


@pytest.fixture
def start(root: Path, tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Starts a program with the repository on its path; whatever still runs at the end, or for too long, is ended."""
    kept = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "FORCE_COLOR", "COLUMNS")}
    own = {"PYTHONPATH": str(root), "NOTIFY_SOCKET": str(tmp_path / "notify")}
    started: list[tuple[subprocess.Popen[str], threading.Timer]] = []

    def start(command: list[str], environment: dict[str, str] | None = None, **given: Any) -> subprocess.Popen[str]:
        pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        process = subprocess.Popen(
            command,
            text=True,
            env={**kept, **own, **(environment or {})},
            **{**pipes, **given},
        )
        limit = threading.Timer(3 * PATIENCE, process.kill)  # a client of a simulator that is not there waits for ever
        limit.start()
        started.append((process, limit))
        return process

    yield start
    for process, limit in started:
        limit.cancel()
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout, process.stderr):
            if pipe is not None:
                pipe.close()


FABRIC = """
Hca 1 "HcaA"
[1] "HcaB"[1]

Hca 1 "HcaB"
[1] "HcaA"[1]
"""
LIDS = {"HcaA": 3, "HcaB": 4}

# A client of ib_umad that sends MADs (hex, one a line) to the QP 1 of a LID. Headers have 56 bytes in the simulator.
PEER = """
    import ctypes, fcntl, os, struct, sys, time
    fd = ctypes.CDLL(None).open(b"/dev/infiniband/umad0", os.O_RDWR)
    assert fd >= 0
    agent = bytearray(struct.pack("=I4I3B3sBx", 0, 8, 0, 0, 0, 1, 7, 2, b"", 0))
    fcntl.ioctl(fd, 0xC01C1B01, agent, True)
    (number,) = struct.unpack_from("=I", agent)
    address = struct.pack(">2IH6B16sI", 1, 0x80010000, int(sys.argv[1]), 0, 0, 0, 0, 0, 0, b"", 0)
    for line in sys.stdin:
        assert os.write(fd, struct.pack("=5I", number, 0, 0, 0, 256) + address + bytes.fromhex(line)) == 312
        time.sleep(0.05)
    time.sleep(0.5)
"""


class Fabric:
    """Two adapters, HcaA and HcaB, in an InfiniBand simulator; a program sees one of them as that of its host."""

    def __init__(self, name: str, library: Path, place: Path) -> None:
        self._simulated = {"LD_PRELOAD": str(library), "SIM_SET_ISSM": "1", "IBSIM_SOCKNAME": name}
        self.place = place

    def host(self, adapter: str) -> dict[str, str]:
        """The environment of a program."""
        return {**self._simulated, "SIM_HOST": adapter}

    def send(self, adapter: str, mads: Iterable[bytes], lid: int) -> None:
        subprocess.run(
            [sys.executable, "-c", textwrap.dedent(PEER), str(lid)],
            input="\n".join(mad.hex() for mad in mads),
            env={**os.environ, **self.host(adapter)},
            cwd=self.place,
            text=True,
            check=True,
            timeout=PATIENCE,
        )


@pytest.fixture
def fabric(require_tool: Callable[[str], str], tmp_path: Path) -> Iterator[Fabric]:
    simulator = require_tool("ibsim")
    libraries = list(Path("/usr/lib").glob("**/umad2sim/libumad2sim.so"))
    if not libraries:
        if os.environ.get("CI") == "true":
            pytest.fail("libumad2sim is not installed")
        pytest.skip("libumad2sim is not installed")
    name = f"ibcmtool-{os.getpid()}"
    (tmp_path / "fabric").write_text(FABRIC)
    with subprocess.Popen(
        [simulator, "-s", str(tmp_path / "fabric")],
        env={**os.environ, "IBSIM_SOCKNAME": name},
        cwd=tmp_path,
        stdin=subprocess.PIPE,  # its console: at the end of it the simulator would spin
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        try:
            assert process.stdin is not None
            assert process.stdout is not None
            for adapter, lid in LIDS.items():
                process.stdin.write(f'Baselid "{adapter}"[1] {lid}\n')
            process.stdin.write("Dump\n")
            process.stdin.flush()
            for line in process.stdout:
                if "dumped 2 nodes" in line:
                    break
            else:
                pytest.fail("the simulator does not start")
            yield Fabric(name, libraries[0], tmp_path)
        finally:
            process.kill()


@pytest.fixture
def sample(captures: Path) -> bytes:
    return (captures / "rping.pcap").read_bytes()
