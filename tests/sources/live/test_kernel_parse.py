"""Lines of a trace: those of real kernels become records, what else may stand there becomes nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tracing import SAMPLE, messages_of, records_of

from ibcmtool.sources.live.kernel.parse import ReceivedMad, SendAttempt, SentMad, parse

LINE = b'rping-196 [000] d..1.    96.584339: tx: (ib_post_send_mad+0x0/0x980 [ib_core]) cls=7 mad={%s} comm="%s"'
WORDS = b",".join([b"0x3020701", b"0xfce6055e02000000", b"0x1300"] + [b"0x0"] * 29)


@pytest.fixture(params=["ours", "shared"])
def sample(request: pytest.FixtureRequest, root: Path) -> Path:
    """A folder with trace.txt and wire.pcap: the same events, as the kernel traced them and as tcpdump saw them."""
    folder = SAMPLE if request.param == "ours" else root.parent / "shared/captures/kernel-probe"
    if not folder.is_dir():
        pytest.skip("the shared captures are not here")
    return folder


def test_every_mad_of_the_wire_is_traced(sample: Path) -> None:
    """Those that are sent again are tried more often than they are posted."""
    records = records_of(sample)
    traced: list[bytes] = []
    posted: dict[tuple[int, int], bytes] = {}
    for record in records:
        if isinstance(record, ReceivedMad):
            traced.append(record.mad)
        elif isinstance(record, SentMad):
            posted[int.from_bytes(record.mad[8:16], "big"), record.mad[17]] = record.mad
        else:
            traced.append(posted[record.tid, record.attribute])
    wire = [message.mad for message in messages_of(sample)]
    assert sorted(traced) == sorted(wire)
    assert len(wire) > len({*wire})  # something was sent again


def test_what_this_layout_tells() -> None:
    sent, tried, received, *_ = records_of(SAMPLE)
    assert isinstance(sent, SentMad) and isinstance(tried, SendAttempt) and isinstance(received, ReceivedMad)
    assert (sent.time, sent.task, sent.thread, sent.by_cm) == (27_093_263_000, "rping", 185, True)
    assert (sent.device, sent.port, sent.routed) == ("rxe0", 1, True)
    assert sent.sgid == bytes.fromhex("00000000000000000000ffff0a4d0001")
    assert sent.dgid == bytes.fromhex("00000000000000000000ffff0a4d0002")
    assert (tried.tid, tried.attribute) == (0x23AC7069C, 0x10)
    assert (received.device, received.port, received.slid) == ("rxe0", 1, 0)
    assert received.flags is not None and received.flags & 1  # it had a GRH
    assert received.grh[20:] == bytes.fromhex("45000134") + received.grh[24:32] + bytes([10, 77, 0, 2, 10, 77, 0, 1])


@pytest.mark.parametrize("comm", [b"rping", b"a-1", b'we"ird', b"with space", b"a=b mad={0x1}", b"-7 [000] 1.0: "])
def test_names_of_programs(comm: bytes) -> None:
    record = parse(LINE % (WORDS, comm), little=True)
    assert isinstance(record, SentMad)
    assert record.task == comm.decode()
    assert record.mad[:4] == b"\x01\x07\x02\x03"


@pytest.mark.parametrize("task", [b"kworker/u3:1", b"with space", b"<...>", b"a-b-c", b"x-1 [000]"])
def test_names_of_threads(task: bytes) -> None:
    record = parse(LINE.replace(b"rping", task, 1).replace(b' comm="%s"', b"") % WORDS, little=True)
    assert isinstance(record, SentMad)
    assert (record.task, record.thread) == (task.decode(), 196)


def test_with_the_thread_group_shown() -> None:
    """Another user of the machine's tracing may have turned record-tgid on."""
    record = parse((LINE % (WORDS, b"x")).replace(b"196 ", b"196   (    190) "), little=True)
    assert isinstance(record, SentMad)
    assert record.thread == 196


def test_pointers_that_were_null() -> None:
    """What was read through them is whatever stood in the buffer before."""
    told = b"id=0x0 dgid={0x1,0x2} flags=0x1 dlid=0x5 attr=0x0 sgid={0x3,0x4} by=cm_recv_handler+0x0/0x230 [ib_cm] comm"
    record = parse((LINE % (WORDS, b"x")).replace(b"comm", told), little=True)
    assert isinstance(record, SentMad)
    assert (record.dgid, record.dlid, record.routed, record.sgid) == (None, None, None, None)


def test_another_agent_than_ib_cm() -> None:
    """What its context points to is no record of a connection."""
    told = b"id=0xff34 dgid={0x1,0x2} flags=0x1 dlid=0x5 by=recv_handler+0x0/0x230 [ib_umad] device=(fault) comm"
    record = parse((LINE % (WORDS, b"x")).replace(b"comm", told), little=True)
    assert isinstance(record, SentMad)
    assert (record.by_cm, record.dgid, record.dlid, record.device) == (False, None, None, "")


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"# tracer: nop",
        b"CPU:0 [LOST 34 EVENTS]",
        LINE % (b"0x1,0x2", b"x"),
        LINE % (WORDS + b",0x0", b"x"),
        LINE % (WORDS.replace(b"0x1300", b"0x1ffffffffffffffff"), b"x"),
        LINE % (WORDS.replace(b"0x1300", b"(fault)"), b"x"),
        (LINE % (WORDS, b"x")).replace(b"tx:", b"sys_enter:"),
        b"rping-196 [000] d..1. 96.584339: rx: (cm_recv_handler+0x0/0x230 [ib_cm]) mad={%s}" % WORDS,  # without its GRH
        b"rping-196 [000] d..1. 96.584339: ib_mad_ib_send_mad: 0:1 QP0 agent 1: tid 0x1",
    ],
)
def test_what_is_passed_over(line: bytes) -> None:
    assert parse(line, little=True) is None


def test_every_cut_of_a_line() -> None:
    """What is left of a cut line is passed over, or makes a record without what came behind the cut."""
    for line in (SAMPLE / "trace.txt").read_bytes().splitlines()[:3]:
        for end in range(len(line)):
            record = parse(line[:end], little=True)
            assert record is None or isinstance(record, SendAttempt) or len(record.mad) == 256


@given(st.binary(max_size=300))
def test_anything(line: bytes) -> None:
    parse(line)


@given(st.data())
def test_damaged_lines(data: st.DataObject) -> None:
    line = bytearray(data.draw(st.sampled_from((SAMPLE / "trace.txt").read_bytes().splitlines())))
    for _ in range(data.draw(st.integers(1, 5))):
        line[data.draw(st.integers(0, len(line) - 1))] = data.draw(st.integers(0, 255))
    parse(bytes(line))
