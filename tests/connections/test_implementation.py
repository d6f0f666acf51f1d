"""Whose CM a CA runs: what gives it away, what contradicts it, and what that changes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from conversation import FIRST_DAY, SERVICE, Conversation, Host, run

from ibcmtool.connections import implementation
from ibcmtool.connections.timers import exponent, linux
from ibcmtool.engine.files import analyze
from ibcmtool.model import Connection, End, Role, TimewaitModel
from ibcmtool.reports.json_connection import connection_text

SECOND = 1_000_000_000
IPOIB_CM = 0x1000000000000404
UPTIME = 0x1234567  # ms since boot, as illumos has it in its TransactionIDs
OFED_TIMERS = {"remote_cm_response_timeout": 22, "local_cm_response_timeout": 22}


def tracked(talk: Conversation, model: TimewaitModel = "auto") -> list[Connection]:
    return run(talk, model=model).connections


def end_of(talk: Conversation, role: Role = "active") -> End:
    """An end of the only connection."""
    (connection,) = tracked(talk)
    return connection.end(role)


def name_of(talk: Conversation, role: Role = "active") -> str | None:
    known = end_of(talk, role).implementation
    return None if known is None else known.name


def swapped(comm_id: int) -> int:
    return int.from_bytes(comm_id.to_bytes(4, "little"), "big")


def illumos_tid(comm_id: int, number: int) -> int:
    return UPTIME << 36 | number << 32 | comm_id


class Illumos(Conversation):
    """Its active side numbers its requests as illumos does."""

    def _tid(self, sender: Role, kind: str) -> int:
        if sender == "active" and kind in ("REQ", "DREQ"):
            return illumos_tid(self.comm_ids["active"], {"REQ": 0, "DREQ": 5}[kind])
        return super()._tid(sender, kind)


@pytest.mark.parametrize(
    ("service_id", "timers", "name", "confidence"),
    [
        (SERVICE, {}, "Linux rdma_cm", "certain"),
        (SERVICE, OFED_TIMERS, "MLNX OFED", "probable"),
        (SERVICE, {"remote_cm_response_timeout": 18, "local_cm_response_timeout": 18}, "Linux", "certain"),
        (SERVICE, {"max_cm_retries": 3}, "Linux", "certain"),
        (IPOIB_CM, {}, "Linux", "certain"),
        (IPOIB_CM, OFED_TIMERS, "Linux", "certain"),  # ipoib_cm, ib_srp and others choose their own
    ],
)
def test_linux_by_its_tid_and_its_timers(service_id: int, timers: dict[str, Any], name: str, confidence: str) -> None:
    talk = Conversation(service_id=service_id)
    talk.active(0, "REQ", **timers)
    known = end_of(talk).implementation
    assert known is not None
    assert (known.name, known.confidence) == (name, confidence)


def test_big_endian_linux() -> None:
    talk = Conversation()
    talk.active(0, "REQ", tid=2 << 32 | talk.comm_ids["active"])
    assert name_of(talk) == "Linux rdma_cm"


@pytest.mark.parametrize("bit", [0, 0x80000000])
def test_a_passive_side_by_its_dreq(bit: int) -> None:
    """Linux until 4.19 set the upper bit in the TransactionID of a DREQ."""
    talk = Conversation()
    talk.establish()
    talk.passive(1, "DREQ", tid=6 << 32 | swapped(talk.comm_ids["passive"]) | bit)
    talk.active(1.1, "DREP")
    assert name_of(talk, "passive") == "Linux"


def test_a_passive_side_that_only_answers() -> None:
    """REP and DREP copy the TransactionID of what they answer."""
    talk = Conversation()
    talk.establish()
    talk.close(1)
    assert end_of(talk, "passive").implementation is None


def test_a_passive_side_by_its_mra() -> None:
    talk = Conversation()
    talk.active(0, "REQ")
    talk.passive(1, "MRA", service_timeout=24)
    talk.passive(2, "REP")
    known = end_of(talk, "passive").implementation
    assert known is not None
    assert (known.name, known.confidence) == ("Linux", "possible")


def test_mra_with_another_service_timeout() -> None:
    talk = Conversation()
    talk.active(0, "REQ")
    talk.passive(1, "MRA", service_timeout=20)
    talk.passive(2, "REP")
    assert name_of(talk, "passive") is None


def test_illumos_by_its_tid() -> None:
    talk = Illumos()
    talk.active(0, "REQ")
    known = end_of(talk).implementation
    assert known is not None
    assert (known.name, known.confidence) == ("illumos", "certain")


def test_illumos_number_of_another_message() -> None:
    """A high half that is no agent of Linux, and no REQ of illumos."""
    talk = Conversation()
    talk.active(0, "REQ", tid=illumos_tid(talk.comm_ids["active"], 5))
    assert name_of(talk) is None


def test_illumos_by_its_rej() -> None:
    talk = Conversation()
    talk.active(0, "REQ")
    talk.passive(0.1, "REP")
    talk.passive(70, "REJ", reason=4, message_rejected=1)
    known = end_of(talk, "passive").implementation
    assert known is not None
    assert (known.name, known.confidence) == ("illumos", "possible")


def test_linux_that_is_destroyed_while_it_waits() -> None:
    talk = Conversation()
    talk.active(0, "REQ")
    talk.active(1, "REJ", reason=4, message_rejected=2)
    assert name_of(talk) == "Linux rdma_cm"


def test_a_cm_in_user_space_beside_that_of_the_kernel() -> None:
    """One CA, and TransactionIDs of two kinds: nobody's."""
    talk = Conversation()
    talk.active(0, "REQ")
    talk.another().active(1, "REQ", tid=0x42)
    assert [connection.active.implementation for connection in tracked(talk)] == [None, None]


def test_timers_of_two_kinds_are_some_linux() -> None:
    """In either order, and for good."""
    for order in ({}, OFED_TIMERS), (OFED_TIMERS, {}):
        talk = Conversation()
        for number, timers in enumerate([*order, {}, OFED_TIMERS]):
            talk.another().active(number, "REQ", **timers)
        assert {connection.active.implementation for connection in tracked(talk)} == {implementation.LINUX}


def test_ipoib_beside_rdma_cm() -> None:
    """Tells nothing against OFED."""
    talk = Conversation()
    talk.active(0, "REQ", **OFED_TIMERS)
    talk.another(service_id=IPOIB_CM).active(1, "REQ")
    assert {c.active.implementation for c in tracked(talk)} == {implementation.OFED}


def test_bit_errors_tell_nothing() -> None:
    talk = Conversation()
    talk.active(0, "REQ", tid=0x42, icrc_ok=False)
    assert name_of(talk) is None
    talk.another().active(1, "REQ")
    assert tracked(talk)[1].active.implementation == implementation.RDMA_CM


def test_a_ca_without_a_guid_is_unknown() -> None:
    talk = Conversation(Host(guid=0))
    talk.active(0, "REQ")
    assert name_of(talk) is None


def test_the_newest_cas_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(implementation, "MOST_CAS", 2)
    talk = Conversation(Host("10.0.1.1"))
    talk.active(0, "REQ")
    for number in (2, 3):
        talk.another(Host(f"10.0.1.{number}")).active(number, "REQ")
    known = [connection.active.implementation for connection in tracked(talk)]
    assert known == [None, implementation.RDMA_CM, implementation.RDMA_CM]


def test_a_ca_is_looked_at_only_for_some_time() -> None:
    talk = Conversation()
    for number in range(implementation.ENOUGH):
        talk.another().active(number, "REQ")
    talk.another().active(100, "REQ", tid=0x42)
    assert tracked(talk)[-1].active.implementation == implementation.RDMA_CM


# -- what it changes ---------------------------------------------------------------------------------------------------


def timewait_length(talk: Conversation, role: Role = "active", model: TimewaitModel = "auto") -> int:
    (connection,) = tracked(talk, model)
    timewait = connection.end(role).timewait
    assert timewait is not None
    return timewait.likely - timewait.start


def closed(talk: Conversation) -> Conversation:
    talk.establish(primary_local_ack_timeout=19)
    talk.close(1)
    return talk


def test_illumos_gets_its_own_timewait() -> None:
    """REP.TargetACKDelay 15, packet life 17: nominal times, nothing rounded; the other side stays Linux."""
    assert timewait_length(closed(Illumos())) == exponent(15) + 2 * exponent(17)
    assert timewait_length(closed(Illumos()), "passive") == linux(19)
    assert timewait_length(closed(Conversation())) == linux(19)


def test_a_hint_changes_no_timer() -> None:
    talk = Conversation()
    first = talk.another()
    first.active(0, "REQ")
    first.passive(0.1, "REP")
    first.passive(70, "REJ", reason=4, message_rejected=1)
    second = closed(talk.another())
    *_, connection = tracked(second)
    assert connection.passive.timewait is not None
    assert connection.passive.timewait.model == "auto"


def test_a_chosen_model_serves_every_ca() -> None:
    assert timewait_length(closed(Illumos()), model="linux") == linux(19)
    assert timewait_length(closed(Conversation()), "passive", "illumos") == exponent(19)
    (connection,) = tracked(closed(Conversation()), "linux-2.6")
    assert {end.timewait and end.timewait.model for end in (connection.active, connection.passive)} == {"linux-2.6"}


def test_connections_are_closed_at_the_same_time_of_the_capture() -> None:
    """The model changes how long timewait lasts, not when it begins."""
    for model in ("auto", "linux", "linux-2.6", "illumos", "iba"):
        (connection,) = tracked(closed(Conversation()), model)
        assert connection.active.timewait is not None
        assert connection.active.timewait.start == FIRST_DAY + SECOND + SECOND // 100


# -- recorded captures -------------------------------------------------------------------------------------------------


def names(path: Path) -> list[tuple[str | None, str | None]]:
    """Of both ends, the active one first."""
    ends = [(connection.active, connection.passive) for connection in analyze([str(path)]).connections]
    known = [[end.implementation and end.implementation.name for end in pair] for pair in ends]
    return [(active, passive) for active, passive in known]


def test_recorded_on_linux(captures: Path) -> None:
    assert names(captures / "rping.pcap") == [("Linux rdma_cm", None)]  # that side only answers
    assert names(captures / "iser_login_logout.pcap") == [("Linux rdma_cm", "Linux")]  # it sent a DREQ
    assert set(names(captures / "timewait_qpn_reuse.pcap")) == {(None, None)}  # a CM in user space


def test_published_by_others(public_captures: Path) -> None:
    assert names(public_captures / "nvme-discover-late-drep.pcap") == [("MLNX OFED", "Linux")]
    assert names(public_captures / "erf-rping-native-ib.pcap") == [("MLNX OFED", None)]
    assert {active for active, _ in names(public_captures / "erf-ipoib-cm-infiniband.pcap")} == {"Linux"}


def test_reports_name_it() -> None:
    talk = Illumos()
    talk.establish()
    (connection,) = tracked(talk)
    ends = [json.loads(connection_text(connection, ""))[role] for role in ("active", "passive")]
    assert [end["implementation"] for end in ends] == ["illumos", None]
