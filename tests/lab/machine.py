"""One virtual machine of the lab: Debian's kernel under software emulation, soft RoCE, an agent that runs commands."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import time
from pathlib import Path
from typing import NamedTuple

from lab.image import Image

BOOT = 120.0  # seconds until a machine that does not answer is given up
AGENT = 7000


class Wire(NamedTuple):
    """The UDP ports on loopback that join the network cards of two machines."""

    here: int
    there: int


class CommandError(AssertionError):
    """A command failed, or took too long; `str()` has what it wrote."""


class Machine:
    """Number N has the addresses 10.77.0.N and fd77::N, the RDMA device rxe0, and the folder `share` as /share."""

    def __init__(self, number: int, image: Image, share: Path, wire: Wire) -> None:
        self.number = number
        self.address = f"10.77.0.{number}"
        self.mac = f"52:54:00:0f:00:0{number}"
        self.share = share
        self._image = image
        self._wire = wire
        self._console = image.folder / f"console{number}.log"
        self._process: subprocess.Popen[bytes] | None = None
        self._up = False
        self._control = free_port(socket.SOCK_STREAM)

    def power_on(self, *, without_cm: bool = False) -> None:
        """Start booting, with the disk as it was built. without_cm: ib_cm is not loaded."""
        options = f"machine={self.number}{' without_cm' if without_cm else ''}"
        disk = self._image.folder / f"disk{self.number}.qcow2"
        disk.unlink(missing_ok=True)
        subprocess.run(
            ["qemu-img", "create", "-q", "-f", "qcow2", "-F", "raw", "-b", self._image.disk.name, disk], check=True
        )
        words = [
            # It must not outlive who started it, however that ends.
            "setpriv", "--pdeathsig", "KILL",
            "qemu-system-x86_64", "-accel", "tcg,thread=multi", "-cpu", "max", "-smp", "2", "-m", "1024", "-no-reboot",
            "-display", "none", "-monitor", "none", "-serial", f"file:{self._console}",
            "-kernel", self._image.kernel, "-initrd", self._image.initrd,
            "-append", f"console=ttyS0 quiet mitigations=off {options}",
            "-drive", f"file={disk},if=virtio",
            "-netdev", f"dgram,id=fabric,{_end('local', self._wire.here)},{_end('remote', self._wire.there)}",
            "-device", f"virtio-net-pci,netdev=fabric,mac={self.mac}",
            "-netdev", f"user,id=control,restrict=on,hostfwd=tcp:127.0.0.1:{self._control}-:{AGENT}",
            "-device", f"virtio-net-pci,netdev=control,mac=52:54:00:0c:00:0{self.number}",
            "-virtfs", f"local,path={self.share},mount_tag=share,security_model=none",
        ]  # fmt: skip
        self._process = subprocess.Popen(
            [str(word) for word in words], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.STDOUT
        )

    def wait(self) -> None:
        """Until it answers."""
        until = time.monotonic() + BOOT
        while not self._answers():
            dead = self._process is None or self._process.poll() is not None
            if dead or time.monotonic() > until:
                raise RuntimeError(f"node {self.number} did not come up: see {self._console}")
            time.sleep(0.5)
        self._up = True

    def power_off(self) -> None:
        """At once: no good-bye on the wire."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None
        self._up = False

    def run(self, command: str, *, seconds: float = 60.0, code: int | None = 0) -> str:
        """What a shell command writes. Raises CommandError when it ends with another code (None: any will do)."""
        with socket.create_connection(("127.0.0.1", self._control), timeout=seconds + 20) as connection:
            connection.sendall(json.dumps({"command": command, "seconds": seconds}).encode() + b"\n")
            with connection.makefile("rb") as stream:
                try:
                    answer = json.loads(stream.readline())
                except TimeoutError:
                    if self._up:
                        self.power_off()  # it hangs: whoever asks next shall not wait as long
                    raise
        output = str(answer["output"])
        if answer["code"] is None:
            raise CommandError(f"node {self.number}: not done after {seconds} s: {command}\n{output}")
        if code is not None and answer["code"] != code:
            raise CommandError(f"node {self.number}: ended with {answer['code']}: {command}\n{output}")
        return output

    def start(self, command: str, output: str) -> int:
        """Start a program (no shell syntax) that runs on, and writes to a file; returns its process id."""
        return int(self.run(f"setsid {command} >{output} 2>{output}.err </dev/null & echo $!"))

    def _answers(self) -> bool:
        try:
            self.run("rdma link show rxe0/1", seconds=10)
        except (OSError, ValueError, CommandError):
            return False
        return True

    def stop(self, pid: int, number: int = signal.SIGINT, *, seconds: float = 60.0) -> None:
        """Send a signal and wait for the end."""
        gone = f"test ! -e /proc/{pid}/exe"
        self.run(f"kill -{int(number)} {pid}; until {gone}; do sleep 0.1; done", seconds=seconds)

    def until(self, condition: str, seconds: float = 60.0) -> None:
        """Wait until a shell command succeeds."""
        self.run(f"until {condition}; do sleep 0.1; done", seconds=seconds)


def _end(side: str, port: int) -> str:
    """One end of a wire of datagrams over loopback, for qemu."""
    return f"{side}.type=inet,{side}.host=127.0.0.1,{side}.port={port}"


def free_port(kind: socket.SocketKind) -> int:
    """A port of loopback that nobody uses at the moment."""
    with socket.socket(socket.AF_INET, kind) as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])
