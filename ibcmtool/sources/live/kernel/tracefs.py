"""Our own corner of tracefs: two probes and a tracepoint in a private trace instance; and its removal.

Instance and probes bear our process id, so that several runs do not meet, and what a killed run has left behind can be
told from what is in use. Documentation/trace/{ftrace,kprobetrace}.rst of the kernel.
"""

from __future__ import annotations

import contextlib
import os
import re
import time
from pathlib import Path
from threading import Lock

from ibcmtool.sources.live.kernel.layout import RECEIVES, SENDS, Layout

INSTANCE = re.compile(r"ibcmtool-(\d+)")
PROBE = re.compile(r"\w+:(ibcmtool_(\d+)/\w+) ")
ATTEMPTS = "ib_mad/ib_mad_ib_send_mad"
CLOCKS = ("boot", "mono")  # the first one that the kernel has; boot goes on while the machine is suspended
# How lines are printed is inherited from the user's own tracing.
OPTIONS = {"raw": "0", "hex": "0", "bin": "0", "verbose": "0", "fields": "0", "context-info": "1", "overwrite": "1"}
BUFFERS = 64 * 1024  # kB for all CPUs together, but
LEAST, MOST = 512, 4096  # kB for each
PATIENCE = 1.0  # seconds until an instance that is still being read can be removed
READ = 1 << 16


class Tracing:
    """The corner of one run. `open`, then `read`, then `close`, which also undoes half an `open`."""

    def __init__(self, tracefs: Path, pid: int, proc: Path = Path("/proc")) -> None:
        self._tracefs = tracefs
        self._proc = proc
        self._group = f"ibcmtool_{pid}"
        self._instance = tracefs / "instances" / f"ibcmtool-{pid}"
        self._made = False
        self._pipe = -1
        self._reading = Lock()  # `close` may come while another thread reads
        self.clock = ""  # of the times: boot or mono
        self.sees_attempts = (tracefs / "events" / ATTEMPTS).exists()

    def open(self, layout: Layout) -> None:
        """Raises OSError where the kernel refuses."""
        self._remove_leftovers()
        self._instance.mkdir()
        self._made = True
        clocks = (self._instance / "trace_clock").read_text()
        self.clock = next(clock for clock in CLOCKS if clock in clocks.replace("[", " ").replace("]", " ").split())
        _write(self._instance / "trace_clock", self.clock)
        for option, value in OPTIONS.items():
            with contextlib.suppress(FileNotFoundError):
                _write(self._instance / "options" / option, value)
        cpus = sum(1 for _ in (self._instance / "per_cpu").glob("cpu*")) or 1
        _write(self._instance / "buffer_size_kb", str(max(LEAST, min(MOST, BUFFERS // cpus))))
        self._define("rx", RECEIVES, layout.receive)
        self._define("tx", SENDS, layout.send)
        _write(self._events(f"{self._group}/tx") / "filter", "cls==7")
        self._pipe = os.open(self._instance / "trace_pipe", os.O_RDONLY | os.O_NONBLOCK)
        if self.sees_attempts:
            _write(self._events(ATTEMPTS) / "filter", "mgmt_class==7")
            _write(self._events(ATTEMPTS) / "enable", "1")
        for probe in ("rx", "tx"):
            _write(self._events(f"{self._group}/{probe}") / "enable", "1")

    def read(self) -> bytes:
        """What was traced since the last time, whole lines; nothing when there is nothing, or after `close`."""
        with self._reading:
            try:
                return os.read(self._pipe, READ) if self._pipe >= 0 else b""
            except BlockingIOError:
                return b""

    def lost(self) -> int:
        """Events that were overwritten before they were read."""
        lost = 0
        for cpu in (self._instance / "per_cpu").glob("cpu*/stats"):
            with contextlib.suppress(OSError):
                lost += sum(int(count) for count in re.findall(r"^overrun: (\d+)", cpu.read_text(), re.MULTILINE))
        return lost

    def stop(self) -> None:
        """No more events; what was traced can still be read."""
        events = [f"{self._group}/rx", f"{self._group}/tx", *([ATTEMPTS] if self.sees_attempts else [])]
        for event in events:
            with contextlib.suppress(OSError):
                _write(self._events(event) / "enable", "0")

    def close(self) -> None:
        """Nothing of ours is left in tracefs."""
        if not self._made:
            return
        self.stop()
        with self._reading:
            if self._pipe >= 0:
                os.close(self._pipe)
                self._pipe = -1
        _remove_instance(self._instance, PATIENCE)
        for line in self._probes():
            if (probe := PROBE.match(line)) is not None and probe[1].startswith(f"{self._group}/"):
                self._remove_probe(probe[1])

    def _events(self, event: str) -> Path:
        return self._instance / "events" / event

    def _define(self, name: str, function: str, arguments: tuple[tuple[str, str], ...]) -> None:
        fetched = " ".join(f"{argument}={text}" for argument, text in arguments)
        _write(self._tracefs / "kprobe_events", f"p:{self._group}/{name} {function} {fetched}", append=True)

    def _probes(self) -> list[str]:
        try:
            return (self._tracefs / "kprobe_events").read_text().splitlines()
        except OSError:
            return []

    def _remove_probe(self, probe: str) -> None:
        with contextlib.suppress(OSError):
            _write(self._tracefs / "kprobe_events", f"-:{probe}", append=True)

    def _remove_leftovers(self) -> None:
        """Of runs that were killed. One that still runs where we do not see it (another pid namespace) reads its
        instance, which the kernel then does not let us remove."""
        in_use: dict[str, bool] = {}  # by process id
        for instance in (self._tracefs / "instances").glob("ibcmtool-*"):
            found = INSTANCE.fullmatch(instance.name)
            if found is not None:
                in_use[found[1]] = self._runs(found[1], instance) or not _remove_instance(instance, 0)
        for line in self._probes():
            probe = PROBE.match(line)
            if probe is not None and not in_use.setdefault(probe[2], self._runs(probe[2])):
                self._remove_probe(probe[1])

    def _runs(self, pid: str, instance: Path | None = None) -> bool:
        """Whether the process that made an instance still runs, and not another one that got its number since."""
        if int(pid) == os.getpid():
            return False
        try:
            status = (self._proc / pid / "stat").read_text()
            booted = re.search(r"^btime (\d+)", (self._proc / "stat").read_text(), re.MULTILINE)
        except OSError:
            return False
        state, *fields = status.rpartition(")")[2].split()
        if state in ("Z", "X"):
            return False  # dead, and nobody has asked for its exit code
        if instance is None or booted is None:
            return True
        ticks = int(fields[18])  # field 22 of all: when it started, in ticks since boot
        started = int(booted[1]) + ticks / os.sysconf("SC_CLK_TCK")
        return started <= instance.stat().st_mtime + 2  # btime is in whole seconds


def _write(path: Path, text: str, *, append: bool = False) -> None:
    """One write(2): the kernel takes each as a command. The file must be there."""
    fd = os.open(path, os.O_WRONLY | (os.O_APPEND if append else 0))
    try:
        os.write(fd, f"{text}\n".encode())
    finally:
        os.close(fd)


def _remove_instance(instance: Path, patience: float) -> bool:
    """The kernel refuses while somebody reads it."""
    until = time.monotonic() + patience
    while instance.exists():
        with contextlib.suppress(OSError):
            instance.rmdir()
            return True
        if time.monotonic() >= until:
            return False
        time.sleep(0.02)
    return True
