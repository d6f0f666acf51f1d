"""The other live sources on a real kernel: an interface of soft RoCE, and umad with and without ib_cm.

The order counts: the last test boots the first machine without ib_cm.
"""

from __future__ import annotations

from collections.abc import Callable

from lab.lab import IBCMTOOL, UNPACK, Lab
from lab.watch import FABRIC, Watch

Report = Callable[[str, Watch], None]


def test_interface(lab: Lab, report: Report) -> None:
    name = lab.one.run(f"echo -n {FABRIC}")
    server = lab.two.start("rping -s -a 0.0.0.0 -p 7184 -C 2", "/tmp/server7184")
    lab.two.until("rdma resource show cm_id | grep -q 7184", seconds=30)
    with Watch(lab.one, f"iface:{name}") as watch:
        lab.one.run("rping -c -a 10.77.0.2 -p 7184 -C 2; rping -c -a 10.77.0.2 -p 9999 -C 1", code=None)
    lab.two.run(f"kill -9 {server}", code=None)
    watch.check()
    assert watch.types() == ["REQ", "REP", "RTU", "DREQ", "DREP", "REQ", "REJ"]
    assert [message.psn for message in watch.seen] == [message.psn for message in watch.wire]
    report(f"`live iface:{name}`: closed, and a REJ", watch)


def test_umad_where_ib_cm_has_the_port(lab: Lab) -> None:
    refused = lab.one.run(f"{IBCMTOOL} live umad:rxe0", code=2)
    assert len(refused.splitlines()) == 1
    assert "ib_cm" in refused
    assert "ibcmtool live kernel" in refused


def test_umad_without_ib_cm(lab: Lab, report: Report) -> None:
    """Nobody answers then, so the other side sends its REQ again, and a REJ when its program is ended."""
    machine = lab.one
    machine.power_off()
    machine.power_on(without_cm=True)
    machine.wait()
    machine.run(UNPACK, seconds=120)
    with Watch(machine, "umad:rxe0") as watch:
        lab.two.run("timeout 10 rping -c -a 10.77.0.1 -p 7175 -C 1", code=124)
    watch.check()
    assert watch.types() == ["REQ", "REQ", "REJ"]
    told = machine.run(f"{IBCMTOOL} sources")
    assert "yes  umad:rxe0:1" in told
    assert "ib_cm is not loaded" in told
    report("`live umad:rxe0` without ib_cm: a REQ that nobody answers", watch)
