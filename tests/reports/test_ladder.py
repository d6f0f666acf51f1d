"""The ladder, drawn whole."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any

import pytest
import sinks

from ibcmtool.analysis import Analysis
from ibcmtool.model import Sighting
from ibcmtool.packets import DataPacket

WIDTHS = (72, 80, 100, 120, 160, 200, None)


def drawn(screen: Any, analysis: Analysis, width: int | None = 160, **kind: Any) -> list[str]:
    made = screen(width, **kind)
    sinks.report("timeline", "text", analysis, console=made.console)
    return made.lines  # type: ignore[no-any-return]


def rungs(lines: list[str]) -> list[str]:
    """The lines below the heading."""
    at = next(at for at, line in enumerate(lines) if re.search(r"\bactive +passive$", line))
    return lines[at + 1 :]


@pytest.mark.parametrize("width", WIDTHS)
def test_every_scene_fits_every_width(screen: Any, scene: Analysis, width: int | None) -> None:
    if len(scene.connections) > 20:
        scene.connections = scene.connections[-20:]
    lines = drawn(screen, scene, width)
    assert bool(lines) == bool(scene.connections)
    assert all(len(line) <= width for line in lines if width is not None)
    assert all(line == line.rstrip() for line in lines)


@pytest.mark.parametrize("width", WIDTHS)
def test_ascii_only_where_there_is_no_utf8(screen: Any, scene: Analysis, width: int | None) -> None:
    scene.connections = scene.connections[:20]
    assert "".join(drawn(screen, scene, width, encoding="ascii")).isascii()


def test_no_escape_codes_without_colour(screen: Any, records: SimpleNamespace) -> None:
    assert "\x1b" not in "".join(drawn(screen, records.stale_S02(), None))
    assert "\x1b[" in "".join(drawn(screen, records.stale_S02(), 120, color=True))


@pytest.mark.parametrize("width", WIDTHS)
def test_lifelines_are_straight(screen: Any, records: SimpleNamespace, width: int | None) -> None:
    """Every line between the ends has its two lifelines (or an arrow's tail) in the same two columns."""
    lines = rungs(drawn(screen, records.clean_close(), width))
    columns = {tuple(at for at, sign in enumerate(line) if sign in "│┊├┤") for line in lines}
    assert len(columns) == 1
    assert len(columns.pop()) == 2


def test_a_clean_life(screen: Any, records: SimpleNamespace) -> None:
    lines = rungs(drawn(screen, records.clean_close(), 110))
    assert [re.sub(r"[─ ]{4,}", " ~ ", line.strip()) for line in lines] == [
        "+0.000000 10:00:01.000000 ~ 1 ~ REQ_SENT  ├─ REQ QPN 0x000011, PSN 0x3a5f12 ~ ▶│  REQ_RCVD",
        "+0.009747 10:00:01.009747 ~ 2 ~ REP_RCVD  │◀ ~ REP QPN 0x000012, PSN 0x00beef ─┤  REP_SENT",
        "+0.031864 10:00:01.031864 ~ 3  ESTABLISHED  ├─ RTU ~ ▶│  ESTABLISHED",
        "┊ ~ 5.17 s later ~ ┊",
        "+5.200000 10:00:06.200000 ~ 4 ~ DREQ_SENT  ├─ DREQ remote QPN 0x000012 ~ ▶│  DREQ_RCVD",
        "+5.200400 10:00:06.200400 ~ 5 ~ TIMEWAIT ┃│◀ ~ DREP ─┤┃ TIMEWAIT",
        "+5.200400 10:00:06.200400 ~ ┃│ ~ the capture ends ~ │┃",
        "+6.224400 10:00:07.224400 ~ ╹│ timewait over (Linux, 1.02 s) ~ │┃",
        "│ elsewhere 8.59 s at most ~ │┃",
        "+7.248400 10:00:08.248400 ~ │ ~ timewait over (Linux, 2.05 s) │╹",
        "│ ~ elsewhere 8.59 s at most │",
    ]


def test_narrow_pages_have_the_clock_on_the_second_line(screen: Any, records: SimpleNamespace) -> None:
    lines = rungs(drawn(screen, records.clean_close(), 80))
    at = next(at for at, line in enumerate(lines) if "RTU" in line)
    assert lines[at].startswith(" +0.031864     3  ESTABLISHED  ├─ RTU ─")
    assert lines[at + 1].startswith(" 10:00:01.031864 ")


def test_the_header(screen: Any, records: SimpleNamespace) -> None:
    lines = drawn(screen, records.clean_close(), 160)
    assert lines[0] == "Connection 1  10.77.0.2:41234 → 10.77.0.1:4420  NVMe/RDMA 4420  closed"
    assert lines[2] == "  active   10.77.0.2:41234, QPN 0x000011, comm id 0xa0f70798, CA 5054:00ff:feaa:0002"
    assert lines[4] == "  times    RoCE v2, opened 2026-02-11 10:00:01.000000 UTC, set up in 31.9 ms, ended after 5.2 s"
    assert lines[5] == ("  timers   CM response timeouts 4.29 s, Max CM Retries 15, Local ACK Timeout 2.15 s, MTU 1024")
    assert lines[6].startswith("  filter   infiniband.mad.mgmtclass == 0x07 && infiniband.mad.transactionid ==")


def test_retransmissions_are_counted_and_the_pauses_between_them_drawn(screen: Any, records: SimpleNamespace) -> None:
    lines = rungs(drawn(screen, records.unanswered_REQs(), 110))
    again = [line for line in lines if "REQ again" in line]
    assert len(again) == 15
    assert [re.search(r"send (\d+) of 16, as frame 1 ", line).group(1) for line in again] == [  # type: ignore[union-attr]
        str(number) for number in range(2, 17)
    ]
    assert sum("6.39 s later" in line for line in lines) == 15
    assert not any("REQ_SENT" in line for line in again)  # the states did not change


def test_findings_stand_at_their_last_frame(screen: Any, records: SimpleNamespace) -> None:
    for width in (80, 160):
        lines = drawn(screen, records.stale_S02(), width)
        second = lines[next(at for at, line in enumerate(lines) if line.startswith("Connection 2")) :]
        at = next(at for at, line in enumerate(second) if "REJ" in line and "◀" in line)
        assert any("S02 warning stale-refused" in line for line in second[at : at + 3])
        at = next(at for at, line in enumerate(second) if "├─ REQ" in line)
        assert any("X03 info reboot (probable)" in line for line in second[at : at + 3])


def test_a_finding_of_another_ladders_frames_stands_at_its_time(screen: Any, records: SimpleNamespace) -> None:
    lines = rungs(drawn(screen, records.timewait_reuse(), 80))
    at = next(at for at, line in enumerate(lines) if "T01 error" in line)
    # Frame 5 of this ladder is one of the finding's frames.
    assert any("DREP" in line for line in lines[at - 2 : at])
    at = next(at for at, line in enumerate(lines) if "S05 info" in line)
    assert any("frames 6, 7 of connection 2" in line for line in lines[at - 2 : at])


def test_findings_beside_the_ladder_where_there_is_room(screen: Any, records: SimpleNamespace) -> None:
    lines = rungs(drawn(screen, records.timewait_reuse(), 170))
    assert any(re.search(r"DREP ─┤┃ TIMEWAIT +▌ T01 error", line) for line in lines)


def test_messages_without_effect_look_so(screen: Any, records: SimpleNamespace) -> None:
    life = records.Life().handshake()
    life.step(900, "active", "DREQ", disposition="ignored", remote_qpn=0x35)
    life.step(950, "passive", "RTU", disposition="unexpected")
    life.step(960, "passive", "REP", disposition="duplicate")
    words = " ".join(" ".join(rungs(drawn(screen, records.analysis(life.connection), 150))).split())
    assert re.search(r"├╌ DREQ remote QPN 0x000035, ignored by the receiver ╌+▶│", words)
    assert re.search(r"│◀─+ RTU unexpected ─┤", words)
    assert "PSN 0x00beef, duplicate" in words


def test_an_unknown_sender_gets_no_arrow_head(screen: Any, records: SimpleNamespace) -> None:
    lines = rungs(drawn(screen, records.partial(), 160))
    dreq = next(line for line in lines if "DREQ" in line)
    assert not set("◀▶├┤") & set(dreq)
    assert any("fe80::5054:ff:feaa:1 to fe80::5054:ff:feaa:2" in line for line in lines)


def test_data_and_second_sightings(screen: Any, records: SimpleNamespace) -> None:
    life = records.Life().handshake()
    conn = life.connection
    at = conn.opened + 40 * records.MS
    packet = DataPacket(0, 4, at, conn.active.address, conn.passive.address, 0x12)
    conn.first_data["active"] = conn.last_data["active"] = packet
    conn.steps[2].sightings = (Sighting(1, 3, conn.steps[2].message.time),)
    analysis = records.analysis(conn)
    analysis.inputs.append(records.analysis(path="other.pcap").inputs[0])
    lines = rungs(drawn(screen, analysis, 110))
    assert sum("data" in line for line in lines) == 1
    assert any(re.search(r"1:4 .*├· data ·+▶│", line) for line in lines)
    assert any("RTU captured again as 2:3 ─" in line for line in lines)


def test_timewait_that_begins_without_a_message(screen: Any, records: SimpleNamespace) -> None:
    life = records.Life().handshake().release(500)
    start = life.connection.closed + 300 * records.MS
    life.connection.active.timewait = life.connection.active.timewait._replace(start=start, assumed=True)
    lines = rungs(drawn(screen, records.analysis(life.connection), 110))
    at = next(at for at, line in enumerate(lines) if "timewait begins" in line)
    assert "┃│" in lines[at] and "┃│" not in lines[at - 1]
    assert any("its length is assumed" in line for line in lines[at:])


def test_a_timewait_inside_the_capture_ends_before_it(screen: Any, records: SimpleNamespace) -> None:
    life = records.Life().handshake().release(500)
    lines = drawn(screen, records.analysis(life.connection, end_ms=2_000), 110)
    order = [
        next(at for at, line in enumerate(lines) if text in line) for text in ("1.02 s)", "the capture ends", "2.05 s)")
    ]
    assert order == sorted(order)
    lines = drawn(screen, records.analysis(life.connection, end_ms=60_000), 110)
    assert not any("the capture ends" in line for line in lines)


def test_long_names_go_on_two_lines(screen: Any, records: SimpleNamespace) -> None:
    names = ("[2001:db8:1234:5678:9abc:def0:1111:1]:50000", "[2001:db8:1234:5678:9abc:def0:1111:2]:4420")
    lines = drawn(screen, records.analysis(records.Life(names=names).handshake().connection), 80)
    at = next(at for at, line in enumerate(lines) if line.startswith("      time frame"))
    assert lines[at].endswith(names[0])
    assert lines[at + 1].strip() == names[1]
