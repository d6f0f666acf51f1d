"""A machine with a tracefs and RDMA ports, in a folder: what a real kernel shows there, as far as `live kernel` looks.

machine = TracingHost(tmp_path, monkeypatch)
source = KernelSource("kernel", "", machine.host)
source.open()
machine.trace(lines)
"""

from __future__ import annotations

import errno
import os
import re
import shutil
from pathlib import Path

import pytest

from ibcmtool.packets import CmMessage
from ibcmtool.sources.files import open_capture
from ibcmtool.sources.live.host import Host
from ibcmtool.sources.live.kernel.parse import TraceRecord, parse
from ibcmtool.wire.decode import Decoder

# Traced by our probes on Linux 6.1 (rxe, in the lab), and what tcpdump saw meanwhile: two connections over IPv4 and
# IPv6, a REJ, a SIDR exchange, and a REQ that was sent twice.
SAMPLE = Path(__file__).parent / "sources/live/kernel_sample"
EVENTS = ("rx", "tx")
LOCKS = {"confidentiality": "none integrity [confidentiality]", "none": "[none] integrity confidentiality"}


class TracingHost:
    """Directories of tracefs behave as there: making one makes its files, removing one works though it is not empty."""

    def __init__(
        self, root: Path, monkeypatch: pytest.MonkeyPatch, uid: int = 0, release: str = "6.1.0-57-amd64"
    ) -> None:
        self.root = root
        self.host = Host(root, uid, release)
        self.tracing = root / "sys/kernel/tracing"
        self.busy: set[str] = set()  # instances that somebody reads
        (self.tracing / "instances").mkdir(parents=True)
        (self.tracing / "trace_pipe").touch()
        (self.tracing / "kprobe_events").touch()
        (self.tracing / "events/ib_mad/ib_mad_ib_send_mad").mkdir(parents=True)
        (root / "sys/module/ib_cm").mkdir(parents=True)
        self.process(1, started=0)
        (root / "proc/stat").write_text("cpu 1 2 3\nbtime 1795960000\n")
        self._writers: list[int] = []
        mkdir, rmdir = Path.mkdir, Path.rmdir

        def make(path: Path, *arguments: object, **options: object) -> None:
            mkdir(path, *arguments, **options)  # type: ignore[arg-type]
            if path.parent == self.tracing / "instances":
                self._fill(path)

        def remove(path: Path) -> None:
            if path.parent != self.tracing / "instances":
                rmdir(path)
            elif path.name in self.busy:
                raise OSError(errno.EBUSY, "Device or resource busy")
            else:
                shutil.rmtree(path)

        monkeypatch.setattr(Path, "mkdir", make)
        monkeypatch.setattr(Path, "rmdir", remove)

    def _fill(self, instance: Path) -> None:
        group = f"ibcmtool_{instance.name.rpartition('-')[2]}"
        for event in (*(f"{group}/{name}" for name in EVENTS), "ib_mad/ib_mad_ib_send_mad"):
            (instance / "events" / event).mkdir(parents=True)
            for name in ("enable", "filter"):
                (instance / "events" / event / name).write_text("0\n")
        for cpu in ("cpu0", "cpu1"):
            (instance / "per_cpu" / cpu).mkdir(parents=True)
            (instance / "per_cpu" / cpu / "stats").write_text("entries: 0\noverrun: 0\ncommit overrun: 0\n")
        (instance / "options").mkdir()
        (instance / "options/raw").write_text("1\n")
        (instance / "trace_clock").write_text("[local] global counter uptime perf mono mono_raw boot tai x86-tsc\n")
        (instance / "buffer_size_kb").write_text("7\n")
        os.mkfifo(instance / "trace_pipe")

    def process(self, pid: int, *, started: float, state: str = "S") -> None:
        """A process that was started so many seconds after the machine was."""
        (self.root / "proc" / str(pid)).mkdir(parents=True, exist_ok=True)
        ticks = int(started * os.sysconf("SC_CLK_TCK"))
        (self.root / "proc" / str(pid) / "stat").write_text(f"{pid} (a (b) c) {state} {'0 ' * 18}{ticks} 0 0\n")

    def port(self, name: str, link_layer: str, lid: str = "0x0", gid: str = "") -> Path:
        """A port "rxe0:1" of which ib_cm counts nothing so far."""
        device, _, number = name.partition(":")
        path = self.root / "sys/class/infiniband" / device / "ports" / number
        (path / "gids").mkdir(parents=True)
        (path / "gids/0").write_text(f"{gid or ':'.join(['0000'] * 8)}\n")
        (path / "link_layer").write_text(f"{link_layer}\n")
        (path / "lid").write_text(f"{lid}\n")
        (path / "state").write_text("4: ACTIVE\n")
        for group in ("rx_msgs", "rx_duplicates", "tx_msgs", "tx_retries"):
            (path / f"cm_{group}").mkdir()
            for message in ["req", "mra", "rej", "rep", "rtu", "dreq", "drep", "sidr_req", "sidr_rep", "lap", "apr"]:
                (path / f"cm_{group}" / message).write_text("0\n")
        return path

    def lockdown(self, level: str) -> None:
        (self.root / "sys/kernel/security").mkdir(parents=True)
        (self.root / "sys/kernel/security/lockdown").write_text(f"{LOCKS[level]}\n")

    @property
    def instance(self) -> Path:
        return self.tracing / "instances" / f"ibcmtool-{os.getpid()}"

    def instances(self) -> list[str]:
        return sorted(path.name for path in (self.tracing / "instances").iterdir())

    def probes(self) -> list[str]:
        """The probes that stand after all commands that were written."""
        standing: dict[str, str] = {}
        for line in (self.tracing / "kprobe_events").read_text().splitlines():
            if line.startswith("-:"):
                del standing[line[2:]]
            else:
                standing[re.match(r"p:(\S+) ", line)[1]] = line  # type: ignore[index]
        return list(standing.values())

    def written(self, path: str) -> str:
        """What was written to a file of our instance last."""
        return (self.instance / path).read_text().splitlines()[0]

    def trace(self, text: bytes) -> None:
        """What the kernel traces next (less than a pipe holds)."""
        if not self._writers:
            self._writers.append(os.open(self.instance / "trace_pipe", os.O_WRONLY))
        os.write(self._writers[0], text)

    def close(self) -> None:
        for fd in self._writers:
            os.close(fd)


def records_of(folder: Path) -> list[TraceRecord]:
    """What the lines of trace.txt tell."""
    lines = (folder / "trace.txt").read_bytes().splitlines()
    return [record for line in lines if (record := parse(line, little=True)) is not None]


def messages_of(folder: Path) -> list[CmMessage]:
    """The CM messages of wire.pcap."""
    decode = Decoder()
    with open_capture(str(folder / "wire.pcap"), 0) as capture:
        return [item for frame in capture if isinstance(item := decode(frame), CmMessage)]
