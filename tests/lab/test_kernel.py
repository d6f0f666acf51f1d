"""`live kernel` on a real kernel, beside tcpdump: whatever happens, each CM MAD of the wire is seen, the retries too.

The order counts: the first test needs machines that have just booted.
"""

from __future__ import annotations

import re
import shlex
import signal
from collections.abc import Callable, Iterator

import pytest
from lab.lab import IBCMTOOL, PYTHON, Lab
from lab.machine import Machine
from lab.watch import FABRIC, TRACING, Watch

Report = Callable[[str, Watch], None]

DROP = "nft add table inet lab; nft add chain inet lab in '{ type filter hook input priority 0; }'; "
DROP_ROCE = DROP + "nft add rule inet lab in udp dport 4791 drop"
DROP_NOTHING = "nft delete table inet lab"

NVME_TARGET = """set -e
modprobe nvmet-rdma
truncate -s 16M /tmp/disk.img
cd /sys/kernel/config/nvmet
mkdir -p subsystems/lab/namespaces/1 ports/1
echo 1 > subsystems/lab/attr_allow_any_host
echo -n /tmp/disk.img > subsystems/lab/namespaces/1/device_path
echo 1 > subsystems/lab/namespaces/1/buffered_io
echo 1 > subsystems/lab/namespaces/1/enable
echo rdma > ports/1/addr_trtype
echo ipv4 > ports/1/addr_adrfam
echo ADDRESS > ports/1/addr_traddr
echo 4420 > ports/1/addr_trsvcid
ln -s /sys/kernel/config/nvmet/subsystems/lab ports/1/subsystems/lab"""
NVME_CONNECT = (
    "modprobe nvme-rdma && nvme connect -t rdma -a ADDRESS -s 4420 -n lab --nr-io-queues=1 --keep-alive-tmo=600 "
    "--hostnqn=nqn.2014-08.org.nvmexpress:uuid:6f1d0b0e-5c3f-4d6c-9a6e-0d5b7a3c2f11 "
    "--hostid=6f1d0b0e-5c3f-4d6c-9a6e-0d5b7a3c2f11"
)


COMPARED = """
import os
from pathlib import Path
from ibcmtool.sources.live.kernel.layout import layout
release = os.uname().release
btf = layout(Path("/sys/kernel/btf"), release, changed=False)
print(btf.origin, btf[1:] == layout(Path("/nowhere"), release, changed=False)[1:])
"""


def left(machine: Machine) -> str:
    """What is ours in tracefs."""
    return machine.run(
        f"ls -d {TRACING}/instances/ibcmtool* 2>/dev/null; grep ibcmtool {TRACING}/kprobe_events", code=None
    )


@pytest.fixture(autouse=True)
def nothing_is_left(lab: Lab) -> Iterator[None]:
    yield
    assert left(lab.one) == ""


def serve(machine: Machine, port: int, *options: str) -> int:
    """An rping server that listens."""
    words = " ".join(options)
    pid = machine.start(f"rping -s -p {port} {words}", f"/tmp/server{port}")
    machine.until(f"rdma resource show cm_id | grep -q 'state LISTEN.*src-addr.*:{port}'", seconds=30)
    return pid


def test_power_loss_and_stale(lab: Lab, report: Report) -> None:
    """The NVMe-oF host loses power; its queue pairs get the same numbers when it is back."""
    lab.one.run(NVME_TARGET.replace("ADDRESS", lab.one.address))
    # When a neighbour stops to answer ARP, rdma_cm (since Linux 6.0) ends its connections: that is not meant here.
    lab.one.run(f"ip neigh replace {lab.two.address} lladdr {lab.two.mac} dev {FABRIC} nud permanent")
    connect = NVME_CONNECT.replace("ADDRESS", lab.one.address)
    # A second run beside the first, as people would read it.
    beside = lab.one.start(f"{IBCMTOOL} live kernel --lines", "/share/stale.txt")
    with Watch(lab.one, "kernel") as watch:
        lab.two.run(connect)
        lab.two.power_off()
        lab.two.power_on()
        lab.two.wait()
        assert "stale conn" in lab.two.run(f"{connect}; dmesg", code=None)
    lab.one.stop(beside)
    lab.one.run("rm /sys/kernel/config/nvmet/ports/1/subsystems/lab")
    watch.check()
    assert len(re.findall(r"^\S+  #\d +REQ ", (lab.share / "stale.txt").read_text(), re.MULTILINE)) == 3
    assert watch.types()[:8] == ["REQ", "REP", "RTU", "REQ", "REP", "RTU", "REQ", "REJ"]
    assert "DREQ" in watch.types()[8:]  # which the kernel owes the old connection
    assert "S02" in watch.codes()
    report("power loss of an NVMe-oF host, then a stale REQ", watch)


def test_close(lab: Lab, report: Report) -> None:
    serve(lab.two, 7174, "-a 0.0.0.0", "-C 2")
    serve(lab.two, 7176, "-a ::", "-C 2")
    with Watch(lab.one, "kernel") as watch:
        lab.one.run("rping -c -a 10.77.0.2 -p 7174 -C 2 && rping -c -a fd77::2 -p 7176 -C 2")
    watch.check()
    assert watch.types() == ["REQ", "REP", "RTU", "DREQ", "DREP"] * 2
    assert watch.senders("REQ") == watch.senders("DREQ") == {"rping"}
    assert [event["direction"] for event in watch.events] == ["out", "in", "out", "out", "in"] * 2
    assert watch.codes() == []
    assert "as many messages received as were captured: 2 REP, 2 DREP" in watch.said
    report("rping, IPv4 and IPv6: closed", watch)


def test_many_at_once(lab: Lab, report: Report) -> None:
    server = lab.two.start("ucmatose -c 100 -C 0", "/tmp/ucmatose")
    lab.two.until("rdma resource show cm_id | grep -q 'state LISTEN.*src-addr.*:7471'", seconds=30)
    with Watch(lab.one, "kernel") as watch:
        lab.one.run("timeout 60 ucmatose -s 10.77.0.2 -c 100 -C 0", seconds=70)
    lab.two.run(f"kill -9 {server}", code=None)
    watch.check()
    assert watch.types().count("REQ") >= 100
    assert {connection["outcome"] for connection in watch.connections} == {"closed"}
    report("ucmatose: 100 connections at once", watch)


def test_reject(lab: Lab, report: Report) -> None:
    with Watch(lab.one, "kernel", ending=signal.SIGTERM) as watch:
        lab.one.run("rping -c -a 10.77.0.2 -p 9999 -C 1", code=None)
    watch.check()
    assert watch.types() == ["REQ", "REJ"]
    report("nobody listens: REJ", watch)


def test_rejecting(lab: Lab, report: Report) -> None:
    """The answer is sent without any state, to where the REQ came from."""
    with Watch(lab.one, "kernel", ending=signal.SIGHUP) as watch:
        lab.two.run("rping -c -a 10.77.0.1 -p 9999 -C 1", code=None)
    watch.check()
    assert [event["direction"] for event in watch.events] == ["in", "out"]
    report("nobody listens here: REJ", watch)


def test_killed_client(lab: Lab, report: Report) -> None:
    serve(lab.two, 7177, "-a 0.0.0.0")
    with Watch(lab.one, "kernel") as watch:
        client = lab.one.start("rping -c -a 10.77.0.2 -p 7177 -C 1000000", "/tmp/client")
        lab.one.until("rdma resource show qp | grep -q 'state RTS'", seconds=30)
        lab.one.stop(client, signal.SIGKILL)
    watch.check()
    assert watch.types() == ["REQ", "REP", "RTU", "DREQ", "DREP"]
    assert watch.senders("DREQ") == {"rping"}
    report("kill -9 of the client", watch)


def test_req_sent_again(lab: Lab, report: Report) -> None:
    """ib_mad repeats the REQ after 6.4 s and again after 12.8 s; the server hears the third."""
    serve(lab.two, 7178, "-a 0.0.0.0", "-C 1")
    with Watch(lab.one, "kernel") as watch:
        lab.two.run(DROP_ROCE)
        client = lab.one.start("rping -c -a 10.77.0.2 -p 7178 -C 1", "/tmp/client")
        lab.two.run(f"sleep 9; {DROP_NOTHING}")
        lab.one.until(f"test ! -e /proc/{client}/exe")
    watch.check()
    assert watch.types() == ["REQ", "REQ", "REQ", "REP", "RTU", "DREQ", "DREP"]
    assert watch.senders("REQ") == {"rping"}
    assert [event["retransmission_of"] for event in watch.events[:3]] == [None, 1, 1]
    report("REQ lost twice", watch)


def test_rep_sent_again(lab: Lab, report: Report) -> None:
    server = serve(lab.one, 7179, "-a 0.0.0.0", "-P")
    with Watch(lab.one, "kernel") as watch:
        lab.two.run(DROP_ROCE)
        client = lab.two.start("rping -c -a 10.77.0.1 -p 7179 -C 1", "/tmp/client")
        lab.two.run(f"sleep 3; {DROP_NOTHING}")
        lab.two.until(f"test ! -e /proc/{client}/exe")
    lab.one.stop(server, signal.SIGKILL)
    watch.check()
    types = watch.types()
    assert types.count("REP") >= 2
    assert types[0] == "REQ" and {"RTU", "DREQ", "DREP"} <= set(types)
    report("REP lost", watch)


def test_unreliable_service(lab: Lab, report: Report) -> None:
    """A SIDR_REQ does not say where it goes; ib_cm's own record does."""
    server = lab.two.start("udaddy -c 2", "/tmp/udaddy")
    lab.two.until("rdma resource show cm_id | grep -q 'state LISTEN.*src-addr.*:7174'", seconds=30)
    with Watch(lab.one, "kernel") as watch:
        lab.one.run("timeout 30 udaddy -s 10.77.0.2 -c 2", code=None)
    lab.two.run(f"kill -9 {server}", code=None)
    watch.check()
    assert watch.types().count("SIDR_REQ") == watch.types().count("SIDR_REP") == 2
    report("udaddy: SIDR", watch)


def test_nvme(lab: Lab, report: Report) -> None:
    lab.two.run(NVME_TARGET.replace("ADDRESS", lab.two.address))
    with Watch(lab.one, "kernel") as watch:
        lab.one.run(NVME_CONNECT.replace("ADDRESS", lab.two.address))
        lab.one.run("sleep 1; nvme disconnect -n lab")
    watch.check()
    assert [watch.types().count(kind) for kind in ("REQ", "REP", "RTU", "DREQ", "DREP")] == [2] * 5
    assert all(connection["outcome"] == "closed" for connection in watch.connections)
    report("NVMe-oF connect and disconnect", watch)


def test_a_reader_that_falls_behind(lab: Lab, report: Report) -> None:
    """What is overwritten before it is read is counted, and ib_cm's own counters tell what is missing."""
    attempts = 25
    with Watch(lab.one, "kernel") as watch:
        lab.one.run(f"echo 4 > {TRACING}/instances/ibcmtool-{watch.pid}/buffer_size_kb; kill -STOP {watch.pid}")
        lab.one.run(f"for i in $(seq {attempts}); do rping -c -a 10.77.0.2 -p 9999 -C 1; done; true", seconds=120)
        lab.one.run(f"kill -CONT {watch.pid}")
    captured = watch.types().count("REJ")
    assert 0 < captured < attempts
    assert (
        f"ib_cm counted other numbers of messages received than were captured: {attempts} REJ ({captured} captured)"
        in (watch.said)
    )
    assert "events were lost" in watch.said
    report(f"{attempts} times REJ, not read meanwhile, with a buffer of 4 kB", watch)


def test_the_table_is_what_btf_tells(lab: Lab) -> None:
    """So that a kernel of this version without BTF is asked the same."""
    told = lab.one.run(f"{PYTHON} -c {shlex.quote(COMPARED)}")
    assert told.split() == ["BTF", "True"]


def test_a_killed_run_is_cleaned_up_by_the_next(lab: Lab) -> None:
    machine = lab.one
    command = f"{IBCMTOOL} live kernel"
    killed = machine.start(command, "/tmp/killed")
    machine.until(f"grep -q 1 {TRACING}/instances/ibcmtool-{killed}/events/ibcmtool_{killed}/tx/enable", seconds=60)
    alive = machine.start(command, "/tmp/alive")
    machine.until(f"grep -q 1 {TRACING}/instances/ibcmtool-{alive}/events/ibcmtool_{alive}/tx/enable", seconds=60)
    assert f"ibcmtool-{killed}" in left(machine)  # which is alive, so nobody touches it
    machine.run(f"echo p:others/probe ib_post_send_mad >> {TRACING}/kprobe_events; mkdir {TRACING}/instances/others")
    machine.stop(killed, signal.SIGKILL)
    assert f"ibcmtool-{killed}" in left(machine)
    machine.stop(alive, signal.SIGTERM)
    assert f"ibcmtool-{killed}" in left(machine)
    machine.run(f"{command} --duration 1", seconds=60)
    assert left(machine) == ""
    others = machine.run(f"grep others {TRACING}/kprobe_events; rmdir {TRACING}/instances/others")
    assert "p:others/probe" in others
    machine.run(f"echo -:others/probe >> {TRACING}/kprobe_events")


def test_a_reader_that_goes_away(lab: Lab) -> None:
    machine = lab.one
    machine.start(f"bash -c '{IBCMTOOL} live kernel --lines | head -n 1'", "/tmp/head")
    machine.until(f"grep -q 1 {TRACING}/instances/ibcmtool-*/events/ibcmtool_*/tx/enable 2>/dev/null", seconds=60)
    for _ in range(2):
        machine.run("rping -c -a 10.77.0.2 -p 9999 -C 1; sleep 1", code=None)
    machine.until(f"test ! -e {TRACING}/instances/ibcmtool-*", seconds=30)
    assert left(machine) == ""
    assert "REQ" in machine.run("cat /tmp/head")


def test_offers(lab: Lab) -> None:
    told = lab.one.run(f"{IBCMTOOL} sources")
    assert "yes  kernel" in told
    assert "no   umad:rxe0:1" in told
    assert "ib_cm owns" in told
    counted = lab.one.run(f"{IBCMTOOL} counters")
    assert counted.startswith("rxe0:1")
