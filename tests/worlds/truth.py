"""What really happened: the deeds of the hosts, written down where they are done, and whether a finding tells of one.

A deed has the code of the finding that tells of it, and the packets in which it shows. A finding is true if there is
such a deed and the finding names one of its packets. Codes at error or warning severity that no deed has are false: in
these worlds nobody does what they say.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from ibcmtool.analysis import Finding
from ibcmtool.connections.timers import SECOND, exponent, linux
from worlds.ids import MRA_TIMEOUT, Id
from worlds.network import Packet

if TYPE_CHECKING:
    from worlds.host import Host

Verdict = Literal["true", "false", "overclaimed"]

# Codes whose findings are judged though they only inform.
JUDGED_INFO = frozenset({"X03", "S05"})
# Deeds that a complete capture must show: a finding of one of these codes is expected.
EXPECTED: dict[str, tuple[str, ...]] = {
    "S01": ("S01",),
    "S02": ("S02", "S08", "S09"),
    "S03": ("S03",),
    "S04": ("S04",),
    "S05": ("S05", "T07"),
    "S06": ("S06",),
    "S12": ("S12",),
    "T01": ("T01", "T02"),
    "T07": ("T07", "H02"),
    "H05": ("H05", "H07", "R06"),
    "H18": ("H18", "X09", "S07"),
    "R07": ("R07", "T09", "S11", "T05"),
    "X03": ("X03",),
    "T05": ("T05",),
    "R01": ("R01",),
    "R02": ("R02",),
}
# A finding with the code on the left is also right if there is a deed of one on the right.
AS_WELL: dict[str, tuple[str, ...]] = {
    "T02": ("T01",),
    "S09": ("S02", "S06"),
    "S08": ("S02",),
    "S07": ("H18",),
    "S11": ("T09", "H02"),
    "H07": ("H05",),
    "H18": ("R06",),  # never answered, after an MRA that the capture lacks: the same program hangs, or host is down
    "R03": ("R02",),
    "H08": ("H02", "T07", "S11"),
}
# Findings that say, when they are certain, that nobody answered: false if an answer was sent and lost on its way.
ABOUT_SILENCE = frozenset({"H05", "H18", "R07"})
NEVER = 1e9


@dataclass(eq=False)
class Deed:
    """Something that a host did, or that happened to it."""

    code: str
    time: float
    host: Host
    packets: list[Packet]
    note: str
    due: float = 0.0  # when it can be known at the earliest
    unless_answered: bool = False  # a deed only if nobody sent an answer to its first packet
    silent: bool = True  # the other side really sent no answer
    holder: Id | None = None  # whose connection is kept
    goes_on: Id | None = None  # who still sends from then on, and shows it by that

    def shows_in(self, packets: list[Packet]) -> bool:
        """Whether one of these packets shows it."""
        if self.code == "X03":
            return any(packet.sender.host is self.host and packet.sent >= self.time for packet in packets)
        firsts = {packet.first for packet in self.packets}
        return any(
            packet.first in firsts
            or (self.goes_on is not None and packet.id is self.goes_on and packet.sent >= self.time)
            for packet in packets
        )


class Truth:
    """All deeds of a world."""

    def __init__(self) -> None:
        self.all: list[Deed] = []

    @property
    def deeds(self) -> list[Deed]:
        return [deed for deed in self.all if not (deed.unless_answered and deed.packets[0].first.answered)]

    def add(self, code: str, time: float, host: Host, packets: list[Packet], note: str, **more: bool | float) -> Deed:
        deed = Deed(code, time, host, packets, note, **more)  # type: ignore[arg-type]
        deed.due = max(deed.due, time)
        self.all.append(deed)
        return deed

    # -- told by hosts and CMs when it happens ---------------------------------------------------------------------

    def restarted(self, time: float, host: Host) -> None:
        """It shows in its next packets."""
        self.add("X03", time, host, [], "restarted", due=time)

    def names_qpn(self, time: float, id_: Id) -> None:
        """A REQ or REP with this QPN is about to be sent: is it too early?"""
        use = id_.use
        assert use is not None
        before = id_.host.boot.uses[use.qpn]
        for last in before[: before.index(use)]:
            if last.carried and last.closed is not None and time < last.closed + last.timewait:
                note = f"QPN 0x{use.qpn:x} again {time - last.closed:.3f} s after it was closed"
                self.add("T01", time, id_.host, [], note)

    def requested(self, time: float, id_: Id) -> None:
        self._complete(id_)

    def answered(self, time: float, id_: Id) -> None:
        """A REP was sent: late, too late, or by one who should have refused?"""
        self._complete(id_)
        rep = id_.said["REP"]
        waited = time - id_.since["REQ_RCVD"]
        if waited > linux(id_.cm.habits.response_timeout) / SECOND:
            self.add("R04", time, id_.host, [rep, id_.heard["REQ"]], f"REP {waited:.1f} s after the REQ")
        other = id_.other
        if other is not None and other.state in ("IDLE", "DEAD", "TIMEWAIT"):
            self.add("H02", time, id_.host, [rep], "REP to one who had given up")
        for deed in self.all:
            if deed.code in ("S01", "S05", "T07") and id_.heard["REQ"] in deed.packets:
                deed.packets.append(rep)

    def confirmed(self, time: float, id_: Id) -> None:
        waited = time - id_.since["REP_RCVD"]
        if waited > linux(id_.cm.habits.response_timeout) / SECOND:
            self.add("R05", time, id_.host, [id_.said["RTU"], id_.heard["REP"]], f"RTU {waited:.1f} s after the REP")
        for deed in self.all:
            if deed.code == "S04" and id_.heard["REP"] in deed.packets:
                deed.packets.append(id_.said["RTU"])

    def promised(self, time: float, id_: Id) -> None:
        """MRA: is the answer there in time?"""
        mra, end = id_.said["MRA"], time + exponent(MRA_TIMEOUT) / SECOND
        id_.cm.plan.at(end, self._promise_over, id_, mra)

    def _promise_over(self, time: float, id_: Id, mra: Packet) -> None:
        if id_.state in ("REQ_RCVD", "REP_RCVD") or not id_.cm.alive:
            cause = id_.heard["REP" if id_.active else "REQ"]
            self.add("R06", time, id_.host, [mra, cause], "no answer in the time that the MRA promised")

    def took_req(self, time: float, id_: Id, req: Packet, holder: Id | None, resting: Id | None) -> None:
        host = id_.host
        if holder is not None:
            self.add("S01", time, host, [req], f"took a REQ with QPN 0x{id_.peer_qpn:x} that it holds {holder.state}")
        # A REQ that comes again is not another use of its QPN: if it was a late copy, that is T07.
        if resting is not None and getattr(resting.heard.get("REQ"), "first", None) is not req.first:
            self.add("S05", time, host, [req], f"took a REQ with QPN 0x{id_.peer_qpn:x} in its timewait")
        before = [other for other in id_.cm.ids if other is not id_ and other.heard.get("REQ")]
        over = req.id is None or req.id.state not in ("REQ_SENT", "MRA_REQ_RCVD")
        if over and any(other.heard["REQ"].first is req.first for other in before):
            self.add("T07", time, host, [req], "took a late copy of a REQ for a new one")

    def took_rep(self, time: float, id_: Id, rep: Packet, holder: Id | None) -> None:
        if holder is not None and holder is not id_:
            self.add("S04", time, id_.host, [rep], f"took a REP with QPN 0x{id_.peer_qpn:x} that it holds")

    def refused_stale(self, time: float, rej: Packet, refused: Packet, holder: Id | None) -> None:
        host = rej.sender.host
        if holder is None:
            self.add("S06", time, host, [rej, refused], "refused a QPN that is only in its timewait")
        elif holder.other is not None and holder.other.host is not refused.sender.host:
            self.add("X12", time, host, [rej, refused], "takes two machines for one")
        else:
            self.add("S02", time, host, [rej, refused], f"refused a QPN that it holds {holder.state}")

    def kept_stale(self, time: float, holder: Id) -> None:
        packets = self.all[-1].packets
        known = next((deed for deed in self.all if deed.holder is holder), None)
        if known is not None:
            known.packets += packets  # once for each connection that is kept
            return
        deed = self.add("S03", time, holder.host, list(packets), "sent no DREQ after REJ 10", due=NEVER)
        deed.holder = holder
        holder.cm.plan.at(time + 3 * holder.wait, self._kept_on, deed, holder)

    def _kept_on(self, time: float, deed: Deed, holder: Id) -> None:
        if holder.cm.alive and holder.state == "ESTABLISHED":
            deed.due = time

    def dropped(self, time: float, id_: Id, dreq: Packet) -> None:
        """Destroyed while it was established: one DREQ."""
        self.add("S12", time, id_.host, [dreq], "one DREQ, never repeated", unless_answered=True, due=time + 30)
        self.add("R07", time, id_.host, [dreq], "its DREQ got no DREP", unless_answered=True, due=NEVER)
        self._one_sided(time, id_, [dreq], unless_answered=True)
        self._elsewhere(time, id_, [dreq])

    def sent_again(self, time: float, id_: Id) -> None:
        """Was it too often, or too early?"""
        habits = id_.cm.habits
        if len(id_.sends) > id_.retries + 1:
            self.add("R01", time, id_.host, id_.sends, "sent more often than Max CM Retries allows")
        if id_.sends[0].kind == "REQ" and len(id_.sends) == id_.retries + 1:  # or its host fails before
            self.add("H18", time, id_.host, id_.sends, "no answer to its REQs", unless_answered=True, due=NEVER)
        if habits.hurry < 1 and not id_.longer:
            self.add("R02", time, id_.host, id_.sends[-2:], "sent again too early", due=time)

    def gave_up(self, time: float, id_: Id) -> None:
        """The consumer of a REQ does not wait any longer."""
        if id_.state == "REQ_SENT" and "REJ" not in id_.heard:
            self._unanswered(time, id_)

    def exhausted(self, time: float, id_: Id) -> None:
        """Max CM Retries is used up."""
        kind = id_.sends[0].kind
        if kind == "REQ" and id_.state == "REQ_SENT":
            self._unanswered(time, id_)
        elif kind == "REP":
            # A promise that was broken instead: R06.
            self._unconfirmed(time, id_, due=NEVER if "MRA" in id_.heard else time)
        elif kind == "DREQ":
            silent = not id_.sends[0].answered
            due = time if silent else NEVER
            self.add("R07", time, id_.host, id_.sends, "no DREP for its DREQs", silent=silent, due=due)
            self._one_sided(time, id_, id_.sends)
        if kind in ("REP", "DREQ"):
            self._elsewhere(time, id_, id_.sends)

    def died(self, time: float, id_: Id) -> None:
        """Its host fails. All REPs allowed may have been sent, though nobody waits for the end of the last wait."""
        if id_.state == "REP_SENT" and len(id_.sends) > id_.retries:
            self._unconfirmed(time, id_, due=NEVER)

    def _unconfirmed(self, time: float, id_: Id, due: float) -> None:
        silent = not id_.sends[0].answered
        self.add("H05", time, id_.host, id_.sends, "no RTU for its REPs", due=due, silent=silent)

    def let_go(self, time: float, id_: Id) -> None:
        """Rejected by its consumer after the other side had answered: does that one hear of it?"""
        other = id_.other
        if other is not None:
            id_.cm.plan.at(time + other.wait, self._still_there, id_, other)

    def _still_there(self, time: float, id_: Id, other: Id) -> None:
        if other.cm.alive and other.state in ("REP_SENT", "ESTABLISHED"):
            self.add("S11", time, id_.host, [], "has let go, its peer has not").goes_on = other

    # -- what follows from it --------------------------------------------------------------------------------------

    def _unanswered(self, time: float, id_: Id) -> None:
        """No answer came."""
        silent = not id_.sends[0].answered
        # A consumer that gives up within the first timeout does as it likes.
        # And where an answer was sent, but lost, its REQs were not unanswered: others tell that it did not get through.
        early = time < id_.sends[0].sent + id_.wait or len(id_.sends) == 1
        due = time if silent and not early else NEVER
        self.add("H18", time, id_.host, id_.sends, "no answer to its REQs", silent=silent, due=due)
        self._elsewhere(time, id_, id_.sends)

    def _elsewhere(self, time: float, id_: Id, packets: list[Packet]) -> None:
        """Did what nobody answered go to a station that has the address no more?"""
        if id_.host.network.holders[id_.peer_ip].mac != id_.peer_mac:
            self.add("X09", time, id_.host, packets, "went to the address's former MAC")

    def _one_sided(self, time: float, id_: Id, packets: list[Packet], *, unless_answered: bool = False) -> None:
        other = id_.other
        if other is not None and other.state in ("ESTABLISHED", "REP_SENT") and other.cm.alive:
            note = "has let go, its peer has not"
            self.add("T09", time, id_.host, packets, note, unless_answered=unless_answered).goes_on = other

    def _complete(self, id_: Id) -> None:
        """The message with the QPN was sent by now: the deed shows in it."""
        for deed in self.all[-4:]:
            if deed.code == "T01" and not deed.packets and deed.host is id_.host:
                deed.packets = id_.sends


@dataclass
class Judgement:
    """A finding and what is true of it."""

    finding: Finding
    verdict: Verdict
    deed: Deed | None


def judged(finding: Finding, deeds: list[Deed], packets: list[Packet]) -> Judgement | None:
    """Whether a finding that names these packets is true; None where there is nothing to be judged."""
    code = finding.code
    if finding.severity == "info" and code not in JUDGED_INFO:
        return None
    for deed in deeds:
        if (deed.code == code or deed.code in AS_WELL.get(code, ())) and deed.shows_in(packets):
            over = code in ABOUT_SILENCE and finding.confidence == "certain" and not deed.silent
            return Judgement(finding, "overclaimed" if over else "true", deed)
    return Judgement(finding, "false", None)
