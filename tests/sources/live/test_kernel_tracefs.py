"""Our corner of tracefs: what is set up, that all of it goes again, and that nothing else is touched."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from tracing import TracingHost

from ibcmtool.sources.live.kernel.layout import Layout
from ibcmtool.sources.live.kernel.tracefs import Tracing

LAYOUT = Layout("BTF", (("mad", "+0(+32($arg3)):x64[32]"), ("port", "+72($arg1):x8")), (("cls", "+1(+8($arg1)):u8"),))
ME = os.getpid()


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[TracingHost]:
    made = TracingHost(tmp_path, monkeypatch)
    yield made
    made.close()


@pytest.fixture
def tracing(machine: TracingHost) -> Tracing:
    return Tracing(machine.tracing, ME, machine.root / "proc")


def test_set_up(machine: TracingHost, tracing: Tracing) -> None:
    tracing.open(LAYOUT)
    assert machine.probes() == [
        f"p:ibcmtool_{ME}/rx cm_recv_handler mad=+0(+32($arg3)):x64[32] port=+72($arg1):x8",
        f"p:ibcmtool_{ME}/tx ib_post_send_mad cls=+1(+8($arg1)):u8",
    ]
    assert machine.instances() == [f"ibcmtool-{ME}"]
    assert machine.written("trace_clock") == tracing.clock == "boot"
    assert machine.written("buffer_size_kb") == "4096"  # two CPUs
    assert machine.written("options/raw") == "0"
    assert machine.written(f"events/ibcmtool_{ME}/tx/filter") == "cls==7"
    assert machine.written("events/ib_mad/ib_mad_ib_send_mad/filter") == "mgmt_class==7"
    for event in (f"ibcmtool_{ME}/rx", f"ibcmtool_{ME}/tx", "ib_mad/ib_mad_ib_send_mad"):
        assert machine.written(f"events/{event}/enable") == "1"
    tracing.close()
    assert machine.instances() == machine.probes() == []


def test_a_kernel_without_the_boot_clock_or_the_tracepoint(machine: TracingHost, tracing: Tracing) -> None:
    (machine.tracing / "events/ib_mad/ib_mad_ib_send_mad").rmdir()
    tracing = Tracing(machine.tracing, ME, machine.root / "proc")
    assert not tracing.sees_attempts
    fill = machine._fill

    def without_boot(instance: Path) -> None:
        fill(instance)
        (instance / "trace_clock").write_text("[local] global counter mono\n")

    machine._fill = without_boot  # type: ignore[method-assign]
    tracing.open(LAYOUT)
    assert tracing.clock == "mono"
    assert machine.written("events/ib_mad/ib_mad_ib_send_mad/enable") == "0"
    tracing.close()


@pytest.mark.parametrize("missing", ["trace_clock", "buffer_size_kb", "events/ibcmtool_PID/tx/filter", "trace_pipe"])
def test_half_an_opening_is_undone(machine: TracingHost, tracing: Tracing, missing: str) -> None:
    missing = missing.replace("PID", str(ME))  # the test has the same name in every process
    fill = machine._fill

    def without(instance: Path) -> None:
        fill(instance)
        (instance / missing).unlink()

    machine._fill = without  # type: ignore[method-assign]
    with pytest.raises(FileNotFoundError):
        tracing.open(LAYOUT)
    tracing.close()
    assert machine.instances() == machine.probes() == []


def test_reading(machine: TracingHost, tracing: Tracing) -> None:
    tracing.open(LAYOUT)
    assert tracing.read() == b""
    machine.trace(b"one\ntwo\n")
    assert tracing.read() == b"one\ntwo\n"
    assert tracing.read() == b""
    (machine.instance / "per_cpu/cpu0/stats").write_text("entries: 9\noverrun: 7\ncommit overrun: 100\n")
    (machine.instance / "per_cpu/cpu1/stats").write_text("entries: 9\noverrun: 4\n")
    assert tracing.lost() == 11
    tracing.close()


def leave(machine: TracingHost, pid: int) -> None:
    """What a run leaves that was killed."""
    (machine.tracing / "instances" / f"ibcmtool-{pid}").mkdir()
    with (machine.tracing / "kprobe_events").open("a") as file:
        file.write(f"p:ibcmtool_{pid}/rx cm_recv_handler x=1\np:ibcmtool_{pid}/tx ib_post_send_mad x=1\n")


def test_leftovers_of_dead_runs_go_and_nothing_else(machine: TracingHost, tracing: Tracing) -> None:
    leave(machine, 70001)  # gone
    leave(machine, 70002)  # alive
    machine.process(70002, started=10)
    leave(machine, 70003)  # dead, and nobody has taken note of it
    machine.process(70003, started=10, state="Z")
    leave(machine, 70004)  # another process has that number now
    machine.process(70004, started=1e9)
    leave(machine, 70005)  # we cannot see its process: it runs in another container
    machine.busy.add("ibcmtool-70005")
    (machine.tracing / "instances/others").mkdir()
    (machine.tracing / "instances/ibcmtool-x").mkdir()
    foreign = "p:others/rx cm_recv_handler x=1", "p:myibcmtool_70001/rx cm_recv_handler x=1"
    with (machine.tracing / "kprobe_events").open("a") as file:
        file.write("".join(f"{line}\n" for line in foreign))
        file.write("p:ibcmtool_70006/rx cm_recv_handler x=1\n")  # its instance was removed already
    tracing.open(LAYOUT)
    kept = ["ibcmtool-70002", "ibcmtool-70005", "ibcmtool-x", "others"]
    assert machine.instances() == sorted([*kept, f"ibcmtool-{ME}"])
    groups = [line.partition("/")[0] for line in machine.probes()]
    assert sorted({*groups}) == sorted(
        {f"p:ibcmtool_{ME}", "p:ibcmtool_70002", "p:ibcmtool_70005", "p:others", "p:myibcmtool_70001"}
    )
    tracing.close()
    assert machine.instances() == kept


def test_a_second_run_in_one_process_leaves_the_first_alone(machine: TracingHost, tracing: Tracing) -> None:
    tracing.open(LAYOUT)
    machine.busy.add(f"ibcmtool-{ME}")
    second = Tracing(machine.tracing, ME, machine.root / "proc")
    with pytest.raises(FileExistsError):
        second.open(LAYOUT)
    second.close()
    assert machine.instances() == [f"ibcmtool-{ME}"]
    assert len(machine.probes()) == 2
    machine.busy.clear()
    tracing.close()


def test_an_instance_that_is_still_read_is_waited_for(
    machine: TracingHost, tracing: Tracing, monkeypatch: pytest.MonkeyPatch
) -> None:
    tracing.open(LAYOUT)
    remove, refused = Path.rmdir, []

    def twice_busy(path: Path) -> None:
        if len(refused) < 2:
            refused.append(path)
            raise OSError(errno.EBUSY, "Device or resource busy")
        remove(path)

    monkeypatch.setattr(Path, "rmdir", twice_busy)
    tracing.close()
    assert refused == [machine.instance] * 2
    assert machine.instances() == machine.probes() == []
