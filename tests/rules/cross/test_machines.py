"""X12-X14: one CA GUID at two machines, an address that another machine takes over, and who does not come back."""

from __future__ import annotations

from dataclasses import replace

import pytest
from conversation import Conversation, Host, run
from rules.cross.test_captures import closing
from rules.cross.test_neighbours import MACS, NEW, OLD, A, B, announce, on_ethernet

from ibcmtool.analysis import Finding

QPN = 0x11
OTHER_BOOT = 0x5D11_A000


def refused_for_another(second: Host, guid: int = 7, *, answers: bool = True) -> Conversation:
    """A host is connected with a QPN; a second one with its GUID asks for the same QPN, and is refused as stale."""
    first = Conversation(Host("10.0.0.1", guid=guid, psn=40), Host("10.0.0.2"), active_qpn=QPN)
    first.establish(0)
    other = first.another(second, active_qpn=QPN)
    other.active(60, "REQ")
    other.passive(60.01, "REJ", reason=10)
    first.passive(60.0102, "DREQ")
    if answers:
        first.active(60.02, "DREP")
    return first


@pytest.mark.parametrize("guid", [7, 0])
def test_two_machines_with_one_guid(guid: int) -> None:
    """Neither is stale: they are told apart by their ids, and as the first one goes on when the second one is there."""
    result = run(refused_for_another(Host("10.0.0.9", guid=guid, first_comm_id=OTHER_BOOT, psn=900), guid))
    finding = result.only("X12")
    assert result.codes == ["X12"]
    assert (finding.severity, finding.confidence, finding.connection) == ("warning", "probable", 2)
    assert [frame for _, frame in finding.frames] == [4, 5, 7]
    assert "10.0.0.1 and at 10.0.0.9: two machines" in finding.message
    assert "10.0.0.2 takes them for one" in finding.message
    assert [connection.outcome for connection in result.connections] == ["closed", "rejected"]


def test_the_first_one_goes_on_by_its_data() -> None:
    """It is quiet otherwise: its DREP was not captured."""
    second = Host("10.0.0.9", guid=7, first_comm_id=OTHER_BOOT, psn=900)
    talk = refused_for_another(second, answers=False)
    talk.data(60.011, "active")
    assert "X12" in run(talk).codes


def test_they_are_named_once_and_no_loop_is_held_against_them() -> None:
    second = Host("10.0.0.9", guid=7, first_comm_id=OTHER_BOOT, psn=900)
    talk = refused_for_another(second, answers=False)
    for number in range(5):
        attempt = talk.another(second, active_qpn=QPN)
        attempt.active(61 + number, "REQ")
        attempt.passive(61.01 + number, "REJ", reason=10)
    talk.active(70, "DREP")
    result = run(talk)
    assert len(result.of("X12")) == 1
    assert not [code for code in result.codes if code.startswith("S")]


def test_what_was_shown_once_holds_for_the_guid() -> None:
    """The next refusal shows nothing of the first one afterwards: S02 knows better by now."""
    second = Host("10.0.0.9", guid=7, first_comm_id=OTHER_BOOT, psn=900)
    talk = refused_for_another(second)
    third = talk.another(active_qpn=0x12)
    third.establish(100)
    attempt = talk.another(second, active_qpn=0x12)
    attempt.active(160, "REQ")
    attempt.passive(160.01, "REJ", reason=10)
    assert run(talk).codes == ["X12"]


def test_nothing_is_sure_where_the_dreq_was_not_captured() -> None:
    talk = Conversation(Host("10.0.0.1", guid=7, psn=40), Host("10.0.0.2"), active_qpn=QPN)
    talk.establish(0)
    other = talk.another(Host("10.0.0.9", guid=7, first_comm_id=OTHER_BOOT, psn=900), active_qpn=QPN)
    other.active(60, "REQ")
    other.passive(60.01, "REJ", reason=10)
    finding = run(talk, until=62).only("S02")
    assert (finding.severity, finding.confidence) == ("info", "possible")
    assert "its CA GUID was at 10.0.0.1 before" in finding.message


@pytest.mark.parametrize("guid", [7, 0])
def test_a_host_that_comes_back_at_another_address_left_a_stale_connection(guid: int) -> None:
    """Nothing of its old life is heard any more."""
    back = Host("10.0.0.9", guid=guid, first_comm_id=OTHER_BOOT)
    talk = refused_for_another(back, guid, answers=False)
    talk.repeat(talk.capture[-1], 4.3, 3)
    result = run(talk)
    assert (result.only("S02").severity, result.connections[0].outcome) == ("warning", "stale")
    assert "X12" not in result.codes


@pytest.mark.parametrize(("psn", "repeats"), [(900_000, 3), (0, 0), (0, 2)])
def test_another_machine_whose_goodbye_was_not_captured_accuses_nobody(psn: int, repeats: int) -> None:
    """One that has come back counts anew; and a DREQ that is not repeated on and on was answered, or it was lost."""
    other = Host("10.0.0.9", guid=7, first_comm_id=OTHER_BOOT, psn=psn)
    talk = refused_for_another(other, answers=False)
    talk.repeat(talk.capture[-1], 4.3, repeats)
    assert run(talk).only("S02").severity == "info"


def test_another_machine_that_had_spoken_before_the_owner_of_the_qpn_did() -> None:
    """Its REQ came in vain before; the owner went on, though not after the refusal."""
    other = Host("10.0.0.9", guid=7, first_comm_id=OTHER_BOOT, psn=900)
    talk = refused_for_another(other, answers=False)
    early = replace(talk.capture[3], time=talk.capture[0].time + 15_000_000, psn=899)
    talk.capture.insert(2, early)
    codes = run(talk).codes
    assert "X12" in codes and "S02" not in codes


def test_a_host_with_two_ports_is_one_machine() -> None:
    """Its ids come from one counter. One of its programs died, and another one took the QPN."""
    result = run(refused_for_another(Host("10.0.0.9", guid=7, first_comm_id=0x01F7_A055)))
    assert result.codes == ["S02"]


def moved(guid: int, mac: str) -> Conversation:
    """B answers, and later again from another CA or MAC address."""
    first = Conversation(Host(A), Host(B, guid=1))
    first.establish(0)
    first.close(1)
    on_ethernet(first)
    later = first.another(passive=Host(B, guid=guid, psn=900, first_comm_id=OTHER_BOOT))
    announce(first, 50, mac)
    later.establish(60)
    on_ethernet(first, {**MACS, B: mac})
    return first


def test_an_address_that_another_machine_takes_over() -> None:
    finding = run(moved(2, NEW)).only("X13")
    assert (finding.severity, finding.confidence, finding.connection) == ("info", "certain", 2)
    assert [frame for _, frame in finding.frames] == [2, 8]
    assert finding.message == (
        f"{B} is another machine now: CA GUID 0000:0000:0000:0002 instead of 0000:0000:0000:0001, MAC address {NEW}"
        f" instead of {OLD}, announced in frame 6. The one before was heard last in frame 2, 60 s earlier."
    )


def test_an_address_that_another_port_takes_over() -> None:
    """A bond's other port: the same CA, another MAC address."""
    finding = run(moved(1, NEW)).only("X13")
    assert f"another port now: MAC address {NEW} instead of {OLD}" in finding.message


def test_an_address_that_stays() -> None:
    assert run(moved(1, OLD)).codes == []


def restarted(*, closed_by: str, back: bool) -> list[Finding]:
    """A server closes its connections and reboots, or its clients close them; some come back."""
    server, client, other = Host("10.0.0.2", psn=70), Host("10.0.0.1"), Host("10.0.0.3")
    talk = Conversation(client, server)
    talk.establish(0)
    if closed_by != "nobody":
        talk.close(50, by="passive" if closed_by == "server" else "active")
    else:
        talk.active(90, "DREQ")  # which it does not hear
    reborn = Host("10.0.0.2", first_comm_id=OTHER_BOOT)
    talk.another(other, reborn).establish(120)
    if back:
        talk.another(client, reborn).establish(140)
    talk.another(client, other, service_id=0x1061144).establish(300)
    return [finding for finding in closing(talk) if finding.code == "X14"]


def test_clients_that_do_not_come_back() -> None:
    (finding,) = restarted(closed_by="server", back=False)
    assert (finding.severity, finding.confidence, finding.frames) == ("info", "probable", ((0, 4), (0, 7)))
    assert finding.message == (
        "10.0.0.2 restarted (seen in frame 1:7). Of its clients for RDMA TCP 7174, 1 has sent no REQ to it in the 3 min"
        " since: 10.0.0.1, heard since."
    )


def test_clients_whose_server_died() -> None:
    assert len(restarted(closed_by="nobody", back=False)) == 1
    assert restarted(closed_by="nobody", back=True) == []


def test_clients_that_come_back_or_had_finished() -> None:
    assert restarted(closed_by="server", back=True) == []
    assert restarted(closed_by="client", back=False) == []
