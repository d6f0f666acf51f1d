"""A view for people, at several widths: what stands in it, and what a narrow terminal leaves out."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

import pytest
import sinks
from conversation import Conversation, Host, run

from ibcmtool.analysis import Analysis, By, InputInfo

WIDTHS = (72, 80, 110, 160, None)
BYS: tuple[By, ...] = ("pair", "target", "service")


def shown(
    screen: Any, records: Iterable[Any], by: By, width: int | None = None, *, everything: bool = False, **given: Any
) -> list[str]:
    several_inputs = given.pop("several_inputs", False)
    made = screen(width, **given)
    kept = {"by": by, "everything": everything, "several_inputs": several_inputs}
    sinks.report("analyze --by", "text", records, console=made.console, **kept)
    return made.lines  # type: ignore[no-any-return]


def squeezed(lines: list[str]) -> str:
    return " ".join(" ".join(lines).split())


def all_of(analysis: Analysis) -> list[Any]:
    return [*analysis.connections, *analysis.findings, *analysis.inputs]


def storm(clients: int = 20) -> list[Any]:
    """Half of the clients are answered at once, a quarter by the second REQ, a quarter never."""
    talk = Conversation()
    for number in range(clients):
        one = talk.another(Host(f"10.0.1.{number + 1}", guid=0x1000 + number, first_comm_id=0x01000000 * number + 7))
        req = one.active(number / 100, "REQ")
        if number % 2:
            one.passive(number / 100 + 0.01, "REP")
            one.active(number / 100 + 0.02, "RTU")
            continue
        one.again(6.4 + number / 100, req)
        if number % 4:
            one.passive(6.42 + number / 100, "REP")
            one.active(6.43 + number / 100, "RTU")
    return [*run(talk, until=400).connections, InputInfo("capture.pcap", "pcap", [1], 100, 100)]


def mesh(nodes: int) -> list[Any]:
    """Everybody connects to everybody with a higher address; the last one refuses."""
    hosts = [Host(f"10.0.0.{number + 1}") for number in range(nodes)]
    talk: Conversation | None = None
    for active, passive in itertools.combinations(range(nodes), 2):
        ends = (hosts[active], hosts[passive])
        talk = talk.another(*ends) if talk else Conversation(*ends)
        if passive < nodes - 1:
            talk.establish(passive)
        else:
            talk.active(passive, "REQ")
            talk.passive(passive + 0.01, "REJ", reason=8)
    assert talk is not None
    return [*run(talk).connections, InputInfo("capture.pcap")]


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("by", BYS)
def test_every_scene_fits_every_width(screen: Any, scene: Analysis, by: By, width: int | None) -> None:
    lines = shown(screen, all_of(scene), by, width)
    assert "capture.pcap" in lines[0]
    if width is not None:
        assert max(map(len, lines)) <= width
    assert not any(line != line.rstrip() for line in lines)
    assert not any(a == b == "" for a, b in itertools.pairwise(lines))


@pytest.mark.parametrize("by", BYS)
def test_ascii_only_where_there_is_no_utf8(screen: Any, by: By) -> None:
    lines = shown(screen, [*storm(), *mesh(4)], by, 110, encoding="ascii")
    assert "".join(lines).isascii()


def test_a_pair(screen: Any, records: SimpleNamespace) -> None:
    lines = shown(screen, all_of(records.clean_close()), "pair")
    assert [line.split() for line in lines[2:5] if "─" not in line] == [
        ["active", "→", "passive", "conns", "connected", "active", "closed"],
        ["10.77.0.2", "→", "10.77.0.1", "1", "1", "1"],
    ]
    assert lines[6] == "✓ 1 connection, closed, nothing to report"


def test_a_target(screen: Any) -> None:
    lines = shown(screen, storm(), "target")
    words = squeezed(lines)
    row = next(line for line in lines if line.startswith("10.0.0.2"))
    assert " ".join(row.split()) == "10.0.0.2 RDMA TCP 7174 20 20 15 5 10 ms 20 ms 20 ms 30 10 5"
    assert "5 of 20 attempts without an answer; one capture cannot tell whether the REQs seen here reached" in words
    assert "30 REQs of 20 clients, 10 of them retransmissions; at most 20 in one second (22:13:20)" in words
    assert "from the first REQ to the REP: p50 10 ms, p99 6.42 s, max 6.42 s" in words
    assert "p50, p99, max: from the last REQ before a REP to that REP" in words
    assert "within 0.8 %" not in words


def test_percentiles_that_are_not_exact_say_so(screen: Any, records: SimpleNamespace) -> None:
    connections = [records.Life(1).handshake().connection] * 1001
    assert "p50 and p99 of more than 1,000 are within 0.8 %" in squeezed(shown(screen, connections, "target"))


def test_the_notes_hold_what_a_narrow_terminal_leaves_out(screen: Any) -> None:
    lines = shown(screen, storm(), "target", 72)
    words = squeezed(lines)
    assert "unanswered" not in words
    assert "5 of 20 attempts without an answer" in words
    row = lines.index("  RDMA TCP 7174")  # below its target
    assert lines[row - 1].split()[:3] == ["10.0.0.2", "20", "15"]


def test_unanswered_attempts_of_both_ends(screen: Any) -> None:
    """Input 0 is captured at the requesters, 1 at the target."""
    talk = Conversation()
    for kind, sender, at in (("REQ", "active", 0), ("REP", "passive", 0.01), ("RTU", "active", 0.02)):
        file = 0 if sender == "active" else 1
        talk.copy(at + 0.0001, getattr(talk, sender)(at, kind, file=file), file=1 - file)
    arrived, lost = talk.another(Host("10.0.0.3")), talk.another(Host("10.0.0.4"))
    arrived.copy(1.0001, arrived.active(1, "REQ", file=0), file=1)
    lost.active(2, "REQ", file=0)
    connections = run(talk, until=400).connections
    first = connections[0].opened
    infos = [InputInfo(path, first_time=first, last_time=first + 10**12) for path in ("a.pcap", "b.pcap")]
    words = squeezed(shown(screen, [*connections, *infos], "target", several_inputs=True))
    assert (
        "2 of 3 attempts without an answer: 1 with a REQ seen at the target's end, 1 with no REQ seen there: lost on "
        "the way"
    ) in words


def test_attempts_known_by_their_end_only(screen: Any) -> None:
    talk = Conversation()
    talk.active(0, "REJ", reason=4)
    words = squeezed(shown(screen, run(talk).connections, "target"))
    assert "1 attempt given up (REJ 4) of which no REQ was seen" in words


def test_refusals_in_the_words_of_the_protocol(screen: Any, records: SimpleNamespace) -> None:
    refused = records.SRP_reject().connections + records.no_listener().connections
    words = squeezed(shown(screen, refused, "pair"))
    assert "1 × REJ 28 consumer reject: SRP: RDMA channel limit reached for this initiator" in words
    assert "1 × REJ 8 invalid service ID" in words


def test_many_reasons_end_in_a_number(screen: Any) -> None:
    talk = Conversation()
    for reason in range(11, 21):
        one = talk.another()
        one.active(reason, "REQ")
        one.passive(reason + 0.01, "REJ", reason=reason)
    assert "4 with other reasons" in squeezed(shown(screen, run(talk).connections, "service"))


def test_the_matrix(screen: Any) -> None:
    lines = shown(screen, mesh(4), "pair", 80)
    at = next(at for at, line in enumerate(lines) if line.startswith("active → passive  10"))
    assert [line.split() for line in lines[at + 2 : at + 5]] == [
        ["10.0.0.1", "1", "1", "1R"],
        ["10.0.0.2", "·", "1", "1R"],
        ["10.0.0.3", "·", "·", "1R"],
    ]
    assert lines[at + 5] == "Connections of each pair: R rejected; the others bare."


@pytest.mark.parametrize(("nodes", "width"), [(2, 80), (13, None), (12, 80)])
def test_no_matrix_where_it_says_nothing_or_has_no_room(screen: Any, nodes: int, width: int | None) -> None:
    assert "Connections of each pair" not in squeezed(shown(screen, mesh(nodes), "pair", width))


def test_rows_beyond_the_first_are_named(screen: Any) -> None:
    lines = shown(screen, mesh(11), "pair", 80)
    assert "40 of 55 pairs of nodes shown, problems first: --all lists every one." in lines
    assert sum(line.startswith("10.") and "→" in line for line in lines) == 40
    lines = shown(screen, mesh(11), "pair", 80, everything=True)
    assert sum(line.startswith("10.") and "→" in line for line in lines) == 55


def test_what_has_no_row_is_said(screen: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ibcmtool.views.rows.MOST_ROWS", 2)
    words = squeezed(shown(screen, mesh(4), "pair"))
    assert "4 connections of others than the first 2 pairs of nodes have no row." in words
    assert "✗ 3 of 6 connections were rejected, 3 open at the end" in words


def test_the_policy_is_named_where_a_finding_depends_on_it(screen: Any, records: SimpleNamespace) -> None:
    words = squeezed(shown(screen, all_of(records.timewait_reuse()), "pair"))
    assert "1 error and 1 info under the relaxed policy (T01)" in words


def test_nothing(screen: Any, records: SimpleNamespace) -> None:
    words = squeezed(shown(screen, all_of(records.empty()), "pair"))
    assert "No CM messages." in words
