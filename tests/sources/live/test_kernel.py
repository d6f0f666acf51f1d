"""`kernel` end to end on a machine of the test's own: packets out of a trace, refusals, the end."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Event

import pytest
from tracing import SAMPLE, TracingHost, messages_of, records_of

from ibcmtool.packets import Address, CmMessage, Frame
from ibcmtool.sources.errors import SourceError
from ibcmtool.sources.live import source_of
from ibcmtool.sources.live.kernel.source import KernelSource
from ibcmtool.sources.live.kernel.traced_kernel import TracedKernel
from ibcmtool.wire.decode import Decoder

PATIENCE = 10.0


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[TracingHost]:
    made = TracingHost(tmp_path, monkeypatch)
    yield made
    made.close()


class Running:
    """A source that is open and runs in its thread; `close` ends both."""

    def __init__(self, machine: TracingHost) -> None:
        self.machine = machine
        self.source = KernelSource("kernel", "", machine.host)
        self.source.open()
        self.frames: list[Frame] = []
        self.error: BaseException | None = None
        self.stop = Event()
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        try:
            self.source.run(self.frames.extend, self.stop, ())
        except SourceError as error:
            self.error = error

    def until(self, condition: Callable[[], bool]) -> None:
        limit = time.monotonic() + PATIENCE
        while not condition():
            assert time.monotonic() < limit, f"{len(self.frames)} frames, {self.error}"
            time.sleep(0.005)

    def close(self) -> None:
        self.stop.set()
        self.thread.join(PATIENCE)
        assert not self.thread.is_alive()
        self.source.close()
        assert self.machine.instances() == self.machine.probes() == []

    def messages(self) -> list[CmMessage]:
        decode = Decoder()
        found = [decode(frame) for frame in self.frames]
        assert all(isinstance(message, CmMessage) for message in found)
        return found  # type: ignore[return-value]


@pytest.fixture
def running(machine: TracingHost) -> Iterator[Running]:
    machine.port("rxe0:1", "Ethernet", gid="0000:0000:0000:0000:0000:ffff:0a4d:0001")
    run = Running(machine)
    yield run
    if not run.stop.is_set():
        run.close()


def ours(machine: TracingHost, message: str, count: int) -> None:
    path = machine.root / "sys/class/infiniband/rxe0/ports/1/cm_rx_msgs" / message
    path.write_text(f"{count}\n")


def test_a_trace_becomes_the_packets_of_the_wire(running: Running) -> None:
    """Same bytes, same addresses, the repetitions too; and who sent what."""
    running.machine.trace((SAMPLE / "trace.txt").read_bytes())
    wire = messages_of(SAMPLE)
    running.until(lambda: len(running.frames) == len(wire))
    seen = running.messages()
    key = [(message.type, message.source, message.destination, message.mad) for message in seen]
    assert key == [(message.type, message.source, message.destination, message.mad) for message in wire]
    assert all(message.icrc_ok for message in seen)  # --write gives Wireshark packets that are right
    assert [frame.direction for frame in running.frames][:5] == ["out", "in", "out", "out", "in"]
    assert running.frames[0].process == "rping-185"
    assert running.frames[1].process == ""
    first, again = running.frames[14:16]
    assert first.data[54:] != again.data[54:]  # another PSN: it was sent again
    assert (again.direction, again.process) == ("out", "rping-202") == (first.direction, first.process)
    assert again.time - first.time == 6_300_872_000


def test_times_are_those_of_the_clock(running: Running) -> None:
    [record, *_] = records_of(SAMPLE)
    running.machine.trace((SAMPLE / "trace.txt").read_bytes())
    running.until(lambda: bool(running.frames))
    booted = time.clock_gettime_ns(time.CLOCK_REALTIME) - time.clock_gettime_ns(time.CLOCK_BOOTTIME)
    assert abs(running.frames[0].time - record.time - booted) < 1_000_000_000


def test_lines_that_come_in_pieces_and_out_of_order(running: Running) -> None:
    """Each CPU has its own buffer; the second line here is older than the first."""
    lines = (SAMPLE / "trace.txt").read_bytes().splitlines(keepends=True)
    running.machine.trace(lines[2] + lines[0] + lines[1] + lines[3][:300])
    running.until(lambda: len(running.frames) == 2)
    assert [message.type for message in running.messages()] == ["REQ", "REP"]
    running.machine.trace(lines[3][300:] + b"nonsense\n" + lines[4])
    running.until(lambda: len(running.frames) == 3)
    assert [message.type for message in running.messages()] == ["REQ", "REP", "RTU"]


def test_counters_that_agree(running: Running) -> None:
    running.machine.trace((SAMPLE / "trace.txt").read_bytes())
    running.until(lambda: len(running.frames) == 20)
    for message, count in {"rep": 3, "rej": 1, "drep": 3, "sidr_rep": 1}.items():
        ours(running.machine, message, count)
    running.close()
    told = "ib_cm counted as many messages received as were captured: 1 REJ, 3 REP, 3 DREP, 1 SIDR_REP"
    assert running.source.notes == [
        "kernel: offsets by a table for Linux 6.1, as there is no BTF of ib_cm",
        f"kernel: {told}",
    ]


def test_counters_that_do_not_agree(running: Running) -> None:
    running.machine.trace((SAMPLE / "trace.txt").read_bytes())
    running.until(lambda: len(running.frames) == 20)
    for message, count in {"rep": 5, "rej": 1, "drep": 3, "sidr_rep": 1, "req": 1}.items():
        ours(running.machine, message, count)
    running.close()
    told = "ib_cm counted other numbers of messages received than were captured: 1 REQ (0 captured), 5 REP (3 captured)"
    assert running.source.notes[-1] == f"kernel: {told}"


def test_what_was_overwritten_is_counted(running: Running) -> None:
    stats = running.machine.instance / "per_cpu/cpu1/stats"
    stats.write_text("entries: 1\noverrun: 12\n")
    running.until(lambda: running.source.dropped == 12)
    stats.write_text("entries: 1\noverrun: 15\n")
    running.close()
    assert running.source.dropped == 15
    assert running.source.notes[-1] == "kernel: 15 events were lost, as the kernel's buffer was read too slowly"


def test_a_loss_is_counted_before_what_came_behind_it_is_delivered(running: Running) -> None:
    (running.machine.instance / "per_cpu/cpu1/stats").write_text("entries: 1\noverrun: 12\n")
    running.machine.trace((SAMPLE / "trace.txt").read_bytes())
    running.until(lambda: bool(running.frames))
    assert running.source.dropped == 12
    assert running.source.sees_host


def test_repetitions_of_what_was_sent_before_the_start(running: Running) -> None:
    lines = (SAMPLE / "trace.txt").read_bytes().splitlines(keepends=True)
    running.machine.trace(lines[1] + lines[4] + lines[1])  # a REQ twice; an RTU, which ib_mad never sends again
    time.sleep(0.1)
    running.close()
    assert running.frames == []
    assert "2 times a message was sent again whose first sending was before the start" in running.source.notes[-1]


def test_the_same_message_posted_twice_is_no_repetition(running: Running) -> None:
    """An answer that is given again goes through ib_post_send_mad each time."""
    lines = (SAMPLE / "trace.txt").read_bytes().splitlines(keepends=True)
    running.machine.trace(lines[0] + lines[0] + lines[1] + lines[1])
    running.until(lambda: len(running.frames) == 2)
    running.close()
    assert len(running.frames) == 2


def test_another_layout_than_expected(running: Running) -> None:
    lines = (SAMPLE / "trace.txt").read_bytes().splitlines(keepends=True)
    running.machine.trace(lines[2].replace(b"mad={0x3020701,", b"mad={0xffff888012345678,"))
    running.until(lambda: running.error is not None)
    assert str(running.error) == (
        "kernel: where a CM MAD should begin with 01 07 02 03, Linux 6.1.0-57-amd64 has 78 56 34 12: its structures "
        "are others than expected; other ways to see CM messages: ibcmtool sources"
    )
    assert running.frames == []
    running.close()


def test_senseless_bytes_after_sensible_ones(running: Running) -> None:
    lines = (SAMPLE / "trace.txt").read_bytes().splitlines(keepends=True)
    running.machine.trace(lines[0] + lines[2] + lines[2].replace(b"mad={0x3020701,", b"mad={0x0,") + lines[3])
    running.until(lambda: len(running.frames) == 3)
    running.close()
    assert running.error is None
    assert running.source.notes[-1] == "kernel: 1 MADs made no sense and were left out"
    assert not running.source.sees_host


def test_closing_while_it_runs(running: Running) -> None:
    """The session closes a source that does not end in time."""
    running.source.close()
    assert running.machine.instances() == running.machine.probes() == []
    running.stop.set()
    running.thread.join(PATIENCE)
    assert running.error is None


def lines_of_infiniband() -> bytes:
    """The trace of a port of a fabric: a path without GRH, LID 0x12 here and LID 0x34 there."""
    text = (SAMPLE / "trace.txt").read_bytes()
    text = text.replace(b"slid=0x0", b"slid=0x34").replace(b"flags=0x41", b"flags=0x0")
    text = text.replace(b"flags=0x1 dlid=", b"flags=0x0 dlid=0x34 was=")
    return text.replace(b'device="rxe0"', b'device="mlx5_0"').replace(b"path=0x0", b"path=0x1")


def test_infiniband_without_a_grh(machine: TracingHost) -> None:
    machine.port("mlx5_0:1", "InfiniBand", lid="0x12")
    run = Running(machine)
    machine.trace(lines_of_infiniband())
    run.until(lambda: len(run.frames) == 20)
    sent, received, *_ = run.messages()
    assert (sent.transport, sent.source, sent.destination) == ("InfiniBand", Address(None, 0x12), Address(None, 0x34))
    assert (received.source, received.destination) == (Address(None, 0x34), Address(None, 0x13))  # by its path bits
    assert [message.mad for message in run.messages()] == [message.mad for message in messages_of(SAMPLE)]
    run.close()


def test_with_a_layout_that_tells_no_addresses(machine: TracingHost) -> None:
    """By the GIDs of the REQ, and what was seen before: but for the SIDR_REQ all packets are between the same ends."""
    machine.port("rxe0:1", "Ethernet", gid="0000:0000:0000:0000:0000:ffff:0a4d:0001")
    run = Running(machine)
    text = (SAMPLE / "trace.txt").read_bytes()
    for name in (b"id=", b"attr=", b"device=", b"flags=", b"port=", b"by="):
        text = text.replace(b" " + name, b" no_" + name)
    machine.trace(text)
    run.until(lambda: len(run.frames) == 20)
    wire = messages_of(SAMPLE)
    wrong = [
        message.type
        for message, expected in zip(run.messages(), wire, strict=True)
        if (message.source, message.destination) != (expected.source, expected.destination)
    ]
    assert wrong == ["SIDR_REQ"]
    run.close()


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ("user", "only root may trace the kernel; run sudo ibcmtool live kernel"),
        ("no tracefs", "tracefs is not mounted; run mount -t tracefs tracefs /sys/kernel/tracing"),
        ("no kprobes", "this kernel has no kprobe events (CONFIG_KPROBE_EVENTS); other ways"),
        ("lockdown", "the kernel is locked down (confidentiality) and forbids probes; other ways"),
        ("no ib_cm", "ib_cm is not loaded, so no connection is managed here; run modprobe ib_cm"),
        ("old", "the structures of Linux 3.10.0 are not known: it has no BTF; other ways"),
        ("container", "setting a probe is not permitted; it needs CAP_SYS_ADMIN: run it outside the container"),
        ("renamed", "setting a probe: the kernel has no such function; ib_cm is not loaded: modprobe ib_cm"),
        ("refused", "setting a probe failed: Invalid argument; other ways"),
    ],
)
def test_refusals(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: str, says: str) -> None:
    """One line each: why, and what to do instead. Nothing is left behind."""
    uid, release = (1000 if change == "user" else 0), ("3.10.0" if change == "old" else "6.1.0")
    machine = TracingHost(tmp_path, monkeypatch, uid, release)
    write = os.write
    errors = {
        "container": PermissionError(1, ""),
        "renamed": FileNotFoundError(2, ""),
        "refused": OSError(22, "Invalid argument"),
    }

    def refusing(fd: int, data: bytes) -> int:
        if data.startswith(b"p:ibcmtool"):
            raise errors[change]
        return write(fd, data)

    if change == "no tracefs":
        (machine.tracing / "trace_pipe").unlink()
    elif change in ("no kprobes", "lockdown"):
        (machine.tracing / "kprobe_events").unlink()
        machine.lockdown("confidentiality" if change == "lockdown" else "none")
    elif change == "no ib_cm":
        (machine.root / "sys/module/ib_cm").rmdir()
    elif change in errors:
        monkeypatch.setattr(os, "write", refusing)
    source = KernelSource("kernel", "", machine.host)
    with pytest.raises(SourceError) as refused:
        source.open()
    source.close()
    assert str(refused.value).startswith(f"kernel: {says}")
    assert "\n" not in str(refused.value)
    assert machine.instances() == []
    assert source.notes in ([], ["kernel: offsets by a table for Linux 6.1, as there is no BTF of ib_cm"])


def test_its_name() -> None:
    assert isinstance(source_of("kernel"), KernelSource)
    with pytest.raises(SourceError, match="takes nothing behind the colon"):
        source_of("kernel:mlx5_0")


def test_ib_cm_that_is_built_in(machine: TracingHost) -> None:
    """It has no folder among the modules, but it counts."""
    (machine.root / "sys/module/ib_cm").rmdir()
    machine.port("mlx5_0:1", "InfiniBand")
    assert TracedKernel(machine.host).tracefs() == machine.tracing


def test_a_vendors_ib_core(machine: TracingHost) -> None:
    (machine.root / "sys/module/ib_cm/taint").write_text("OE\n")
    assert TracedKernel(machine.host).layout().origin == "a table for Linux 4.5 and newer"
