"""X07: other implementations; and what no rule may hold against them: pauses that grow, or lag."""

from __future__ import annotations

from itertools import accumulate

import pytest
from conversation import Conversation, Host, Result, run

from ibcmtool.model import TimewaitModel
from ibcmtool.packets import CmMessage
from ibcmtool.values import Guid

OFED_TIMERS = {"remote_cm_response_timeout": 22, "local_cm_response_timeout": 22}


def illumos_req(talk: Conversation, time: float) -> CmMessage:
    return talk.active(time, "REQ", tid=0x1234567 << 36 | talk.comm_ids["active"])


def test_ofed() -> None:
    """X07: told once for the CA, however many connections it opens."""
    talk = Conversation(Host("10.0.0.1", guid=0x1111222233334444))
    first, _, _ = talk.establish(**OFED_TIMERS)
    talk.another().establish(5, **OFED_TIMERS)
    finding = run(talk).only("X07")
    assert (finding.severity, finding.confidence) == ("info", "probable")
    assert finding.frames == ((0, first.frame),)
    assert "10.0.0.1 (CA 1111:2222:3333:4444) runs the CM of MLNX OFED" in finding.message
    assert "gives up an unanswered REQ, REP or DREQ after 4 min 22 s at the earliest, upstream Linux after 65.5 s" in (
        finding.message
    )
    assert finding.evidence == {"implementation": "MLNX OFED", "ca_guid": Guid(0x1111222233334444)}


def test_illumos() -> None:
    """X07"""
    talk = Conversation()
    illumos_req(talk, 0)
    talk.passive(0.1, "REP")
    talk.active(0.2, "RTU")
    finding = run(talk).only("X07")
    assert (finding.severity, finding.confidence) == ("info", "certain")
    assert "runs the CM of illumos, by its TransactionIDs. It refuses a REQ whose QPN is in its timewait" in (
        finding.message
    )


def test_upstream_linux() -> None:
    """X07: the usual case; other timers of other kernel consumers are usual as well."""
    talk = Conversation()
    talk.establish()
    talk.close(1)
    ipoib = talk.another(service_id=0x1000000000000404)
    ipoib.establish(5, **OFED_TIMERS)
    assert run(talk).codes == []


@pytest.mark.parametrize("reason", ["contradicted", "hint"])
def test_nobody_in_particular(reason: str) -> None:
    """X07: a CM in user space beside that of OFED; a REJ 4 that reads like illumos."""
    talk = Conversation()
    if reason == "contradicted":
        talk.active(0, "REQ", **OFED_TIMERS)
        talk.another().active(1, "REQ", tid=0x42)
    else:
        talk.active(0, "REQ")
        talk.passive(0.1, "REP")
        talk.passive(70, "REJ", reason=4, message_rejected=1)
    assert "X07" not in run(talk).codes


def test_a_chosen_model_is_contradicted() -> None:
    """X07: for each of the CAs that are known to be another's, once."""
    talk = Conversation()
    talk.establish(primary_local_ack_timeout=19)
    talk.close(1)
    again = talk.another()
    again.establish(20, primary_local_ack_timeout=19)
    again.close(21)
    finding = run(talk, model="illumos").only("X07")
    assert finding.severity == "info"
    assert "runs the CM of Linux rdma_cm, by its TransactionIDs and CM timers, but --timewait-model illumos" in (
        finding.message
    )
    assert "its timewait was taken for 1.21 s instead of 2.05 s" in finding.message
    assert finding.evidence["timewait_model"] == "illumos"
    assert "Without --timewait-model" in finding.advice


@pytest.mark.parametrize("model", ["auto", "linux", "linux-2.6", "iba"])
def test_a_chosen_model_that_can_be(model: TimewaitModel) -> None:
    """X07: one of Linux for Linux, and the spec's for anybody."""
    talk = Conversation()
    talk.establish()
    talk.close(1)
    assert run(talk, model=model).codes == []


def test_a_reuse_is_told_by_the_model_that_was_chosen() -> None:
    """T02"""
    talk = Conversation(active_qpn=0x11)
    talk.establish(primary_local_ack_timeout=19)
    talk.close(1)
    talk.another(active_qpn=0x11).establish(2)
    assert "the timewait that Linux keeps, 2.05 s" in run(talk, model="auto").only("T02").message
    assert "the timewait that illumos keeps, 1.21 s" in run(talk, model="illumos").only("T02").message


# -- senders that take their time --------------------------------------------------------------------------------------

BACK_OFF = (4.7, 4.7, 4.7, 4.7, 9.4, 18.8, 37.6, 60, 60, 60, 60, 60, 60, 60, 60)  # four as usual, then twice as long
LAG = (4.7, 4.7, 21.0, 4.7, 30.0, 26.0, 4.7, 4.7, 22.0, 4.7, 4.7, 4.7, 4.7, 4.7, 4.7)  # MADs that wait for others
ACCUSATIONS = ("warning", "error")


def accused(result: Result) -> list[str]:
    return [f"{finding.code} {finding.message}" for finding in result.findings if finding.severity in ACCUSATIONS]


@pytest.mark.parametrize("pauses", [BACK_OFF, LAG])
def test_req_with_growing_pauses_that_is_answered_at_last(pauses: tuple[float, ...]) -> None:
    """R01, R02, H02, H18: given up neither between two sends, nor before the answer to the last one."""
    talk = Conversation()
    req = talk.active(0, "REQ")
    *_, last = [talk.again(time, req) for time in accumulate(pauses)]
    end = sum(pauses)
    talk.passive(end + 4, "REP")
    talk.active(end + 4.1, "RTU")
    result = run(talk)
    assert last.frame == 16
    assert accused(result) == []
    assert "H18" not in result.codes
    assert result.connections[0].outcome == "established"


@pytest.mark.parametrize("pauses", [BACK_OFF, LAG])
def test_req_with_growing_pauses_that_is_never_answered(pauses: tuple[float, ...]) -> None:
    """H18: told once, when the last wait is over."""
    talk = Conversation()
    req = talk.active(0, "REQ")
    for time in accumulate(pauses):
        talk.again(time, req)
    result = run(talk, until=2000)
    assert result.codes == ["H18"]
    assert result.only("H18").evidence["sends"] == 16


def test_rep_with_growing_pauses() -> None:
    """H05: the RTU comes within the pause that would have been next."""
    talk = Conversation()
    talk.active(0, "REQ")
    rep = talk.passive(0.1, "REP")
    for time in accumulate(BACK_OFF):
        talk.again(0.1 + time, rep)
    talk.active(sum(BACK_OFF) + 4, "RTU")
    result = run(talk, until=2000)
    assert accused(result) == []
    assert "H05" not in result.codes


@pytest.mark.parametrize("pauses", [BACK_OFF, LAG])
def test_dreq_with_growing_pauses(pauses: tuple[float, ...]) -> None:
    """R07, S12, T09: answered at last; what is told meanwhile accuses nobody."""
    talk = Conversation()
    talk.establish()
    dreq = talk.active(1, "DREQ")
    for time in accumulate(pauses):
        talk.again(1 + time, dreq)
    talk.passive(1 + sum(pauses) + 3, "DREP")
    result = run(talk, until=2000)
    assert accused(result) == []
    assert result.connections[0].outcome == "closed"


def test_longer_pauses_after_an_mra() -> None:
    """R03: the wait that was asked for, and longer ones from then on (kernels that keep the MRA's time)."""
    talk = Conversation()
    req = talk.active(0, "REQ")
    talk.passive(1, "MRA", service_timeout=22)
    for time in (18, 35.2, 70, 140):
        talk.again(time, req)
    talk.passive(141, "REP")
    talk.active(141.1, "RTU")
    result = run(talk, until=300)
    assert not {"R02", "R03", "H18"} & set(result.codes)
