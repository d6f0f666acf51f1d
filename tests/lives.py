"""Clean lives: CMs that behave as Linux does, a network that loses and delays their packets, and captures of it all.

    capture = clean_lives(seed)
    result = run(capture.items, until=capture.until)

Whatever is lost, late, out of order or not captured here, nobody does anything wrong: a rule that speaks of an error or
of a warning accuses an innocent. Times are seconds, as in a Conversation.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass, replace
from operator import attrgetter
from random import Random
from typing import Any, Literal, NamedTuple

from conversation import SECOND, Conversation, Host

from ibcmtool.connections.timers import linux
from ibcmtool.engine.clocks import offset
from ibcmtool.model import PEER, Role
from ibcmtool.packets import Address, CmMessage

Where = Literal["active", "passive", "midway", "both ends"]
WHERE: tuple[Where, ...] = ("active", "passive", "midway", "both ends")

MAX_SENDS = 16  # Max CM Retries 15
# How long Linux waits for an answer: the response timeout of 20, for the REQ's sender with two packet lives of 18.
ANSWER_WAIT: dict[Role, float] = {
    "active": (linux(20) + 2 * linux(18)) / SECOND,
    "passive": linux(20) / SECOND,
}
MRA_WAIT = (linux(24) + linux(19)) / SECOND  # its Service Timeout and the Local ACK Timeout
TIMER_LAG = 0.1  # a busy host is that late with its timers
FIRST_HOP = 10e-6  # from a host to a capture at its own port
LONGEST_WAY = 5e-3  # from host to host
LONGEST_LIFE = 2000.0  # until the last timer of the slowest life is over


@dataclass(frozen=True)
class Conditions:
    """What happens to packets on the way, and how they were captured."""

    where: Where
    loss: float  # share of the packets that do not arrive
    disorder: float  # a capture may have a packet that much later than it was (several receive queues)
    clock_offset: float  # how far the clock of the capture at the passive end is ahead, when there are two

    @classmethod
    def drawn(cls, rng: Random) -> Conditions:
        return cls(
            where=rng.choice(WHERE),
            loss=rng.choice((0.0, 0.02, 0.1, 0.3)),
            disorder=rng.choice((0.0, 0.001, 0.02)),
            clock_offset=rng.choice((0.0, rng.uniform(-0.5, 0.5), rng.uniform(-1000, 1000))),
        )


class Plan:
    """What is going to happen, in the order of time."""

    def __init__(self) -> None:
        self._actions: list[tuple[float, int, Callable[..., None], tuple[Any, ...]]] = []
        self._number = 0

    def at(self, time: float, action: Callable[..., None], *details: Any) -> None:
        """Call `action(time, *details)` when its time comes."""
        self._number += 1
        heapq.heappush(self._actions, (time, self._number, action, details))

    def run(self, until: float) -> None:
        while self._actions and self._actions[0][0] <= until:
            time, _, action, details = heapq.heappop(self._actions)
            action(time, *details)


class Retry:
    """A message that its sender repeats until it is answered, or Max CM Retries is used up."""

    def __init__(self, life: Life, sender: Role, kind: str) -> None:
        self.life, self.sender, self.kind = life, sender, kind
        self.wait = ANSWER_WAIT[sender]
        self._sends = 0
        self._turn = 0

    def due(self, time: float) -> None:
        """Send at `time`, not when planned before."""
        self._turn += 1
        self.life.plan.at(time, self._fire, self._turn)

    def stop(self) -> None:
        self._turn += 1

    def _fire(self, time: float, turn: int) -> None:
        if turn != self._turn or self._sends == MAX_SENDS:
            return
        self._sends += 1
        self.life.send(time, self.sender, self.kind)
        self.due(time + self.wait + self.life.rng.uniform(0, TIMER_LAG))


class Life:
    """One connection, from its REQ until both ends have let go or have given up."""

    def __init__(self, talk: Conversation, plan: Plan, rng: Random, conditions: Conditions, start: float) -> None:
        self.talk, self.plan, self.rng, self.conditions = talk, plan, rng, conditions
        self.patience = start + LONGEST_LIFE / 4  # of consumers that wait to close
        self.state: dict[Role, str] = {"active": "REQ_SENT", "passive": "LISTEN"}
        self._said: dict[tuple[Role, str], CmMessage] = {}
        self._req, self._rep = Retry(self, "active", "REQ"), Retry(self, "passive", "REP")
        self._dreq: dict[Role, Retry] = {role: Retry(self, role, "DREQ") for role in PEER}
        # What the consumers do.
        self._rejects = rng.random() < 0.1
        self._thinking: dict[Role, float] = {
            "passive": rng.choice((0.001, 0.01, rng.uniform(0, 4), rng.uniform(4, 20))),
            "active": rng.choice((0.001, rng.uniform(0, 2))),
        }
        self._mra_lasts = rng.random() < 0.5  # older kernels go on with the longer wait, newer ones use it once
        closers: tuple[Role, ...] = rng.choice((("active",), ("passive",), ("active", "passive")))
        end = start + rng.uniform(1, 60)
        self._req.due(start)
        for closer in closers:
            plan.at(end + rng.uniform(0, 0.01), self._close, closer)

    # -- the network and the captures ------------------------------------------------------------------------------

    def send(self, time: float, sender: Role, kind: str) -> None:
        """Put a packet on its way: it may be lost before or behind the capture point, and arrives a little later."""
        where, loss = self.conditions.where, self.conditions.loss
        way = self.rng.uniform(2 * FIRST_HOP, LONGEST_WAY)
        lost = self.rng.random() < loss
        if where == "both ends":
            message = self._capture(time + FIRST_HOP, sender, kind, file=_file(sender))
            if not lost:
                self.talk.copy(self._stamp(time + way, PEER[sender]), message, file=_file(PEER[sender]))
        else:
            share = {sender: 0.0, PEER[sender]: 1.0, "midway": 0.5}[where]  # of the way that lies before the capture
            if lost and self.rng.random() < share:
                self.talk.hosts[sender].next_psn()
                return
            self._capture(time + FIRST_HOP + share * (way - FIRST_HOP), sender, kind)
        if not lost:
            self.plan.at(time + way, self._heard, sender, kind)

    def _capture(self, time: float, sender: Role, kind: str, *, file: int = 0) -> CmMessage:
        """Write a packet into a capture: the same MAD as before if its sender repeats itself."""
        stamp = self._stamp(time, sender) if self.conditions.where == "both ends" else self._late(time)
        earlier = self._said.get((sender, kind))
        if earlier is not None:
            return self.talk.again(stamp, earlier, file=file)
        say = self.talk.active if sender == "active" else self.talk.passive
        message = self._said[sender, kind] = say(stamp, kind, file=file)
        return message

    def _stamp(self, time: float, at: Role) -> float:
        """The time by the clock of the capture at this end."""
        return self._late(time) + (self.conditions.clock_offset if at == "passive" else 0.0)

    def _late(self, time: float) -> float:
        return time + self.rng.uniform(0, self.conditions.disorder)

    # -- the CMs ---------------------------------------------------------------------------------------------------

    def _heard(self, time: float, sender: Role, kind: str) -> None:
        if kind == "DREQ":
            self._hear_dreq(time, PEER[sender])
        elif kind == "DREP":
            self._let_go(PEER[sender])
        elif sender == "active":
            self._passive_hears(time, kind)
        else:
            self._active_hears(time, kind)

    def _passive_hears(self, time: float, kind: str) -> None:
        state = self.state["passive"]
        if kind == "REQ" and state == "LISTEN":
            self.state["passive"] = "REQ_RCVD"
            self.plan.at(time + self._thinking["passive"], self._decide)
            if self._thinking["passive"] > ANSWER_WAIT["passive"]:
                self.send(time, "passive", "MRA")  # what slow ones owe
        elif kind == "REQ" and state == "REQ_RCVD":
            self.send(time, "passive", "MRA")
        elif kind == "RTU" and state == "REP_SENT":
            self._rep.stop()
            self.state["passive"] = "ESTABLISHED"

    def _decide(self, time: float) -> None:
        """The passive side's consumer accepts, or rejects: then a repeated REQ is a new one to its CM."""
        if self._rejects:
            self.state["passive"] = "LISTEN"
            self.send(time, "passive", "REJ")
        else:
            self.state["passive"] = "REP_SENT"
            self._rep.due(time)

    def _active_hears(self, time: float, kind: str) -> None:
        state = self.state["active"]
        if kind == "REJ" and state == "REQ_SENT":
            self._req.stop()
            self.state["active"] = "IDLE"
        elif kind == "MRA" and state == "REQ_SENT":
            if self._mra_lasts:
                self._req.wait = MRA_WAIT
            self._req.due(time + MRA_WAIT)
        elif kind == "REP" and state == "REQ_SENT":
            self._req.stop()
            self.state["active"] = "REP_RCVD"
            self.plan.at(time + self._thinking["active"], self._confirm)
        elif kind == "REP" and state == "ESTABLISHED":
            self.send(time, "active", "RTU")

    def _confirm(self, time: float) -> None:
        self.state["active"] = "ESTABLISHED"
        self.send(time, "active", "RTU")

    def _close(self, time: float, closer: Role) -> None:
        if self.state[closer] == "ESTABLISHED":
            self.state[closer] = "DREQ_SENT"
            self._dreq[closer].due(time)
        elif self.state[closer] not in ("TIMEWAIT", "IDLE") and time < self.patience:
            self.plan.at(time + 1, self._close, closer)  # once it is established

    def _hear_dreq(self, time: float, role: Role) -> None:
        if self.state[role] in ("ESTABLISHED", "REP_SENT", "DREQ_SENT"):
            self._let_go(role)
        if self.state[role] == "TIMEWAIT":
            self.send(time, role, "DREP")

    def _let_go(self, role: Role) -> None:
        self._rep.stop()
        self._dreq[role].stop()
        self.state[role] = "TIMEWAIT"


def _file(role: Role) -> int:
    """The input that holds what was captured at this end, when there are two."""
    return 0 if role == "active" else 1


class Capture(NamedTuple):
    """What the captures show, merged and with one clock, as the analysis would hand it to the tracker."""

    items: list[CmMessage]
    until: float | None  # when the capture ends; None: with its last packet
    conditions: Conditions
    lives: list[Life]


def clean_lives(seed: int) -> Capture:
    """One to three lives of the same two hosts, and what is captured of them: often not the beginning, or the end."""
    rng = Random(seed)
    conditions, plan = Conditions.drawn(rng), Plan()
    talk = Conversation(Host("10.0.0.1", psn=rng.randrange(1 << 24)), Host("10.0.0.2", psn=rng.randrange(1 << 24)))
    start, lives = 0.0, [Life(talk, plan, rng, conditions, 0.0)]
    for _ in range(rng.choice((0, 0, 1, 2))):
        start += rng.uniform(0, 100)
        lives.append(Life(talk.another(), plan, rng, conditions, start))
    end = start + LONGEST_LIFE
    plan.run(end)
    said = sorted((item for item in talk.capture if isinstance(item, CmMessage)), key=attrgetter("time"))
    first, second = ([item for item in said if item.file == file] for file in (0, 1))
    for capture in (first, second):
        if rng.random() < 0.3:
            del capture[: _pause(capture[: len(capture) // 2], rng, conditions.disorder)]
    items = _merged(first, second, conditions.clock_offset)
    if rng.random() < 0.3:
        del items[_pause(items, rng, conditions.disorder) :]
        return Capture(items, None, conditions, lives)
    return Capture(items, end, conditions, lives)


def _pause(items: list[CmMessage], rng: Random, disorder: float) -> int:
    """Where to begin or to end a capture: before which item, all in front of it being captured earlier for certain."""
    pauses = [at for at in range(1, len(items)) if items[at].time - items[at - 1].time > disorder * SECOND]
    return rng.choice(pauses or [0])


def _merged(first: list[CmMessage], second: list[CmMessage], clock_offset: float) -> list[CmMessage]:
    """Two captures as one. Packets that both hold tell how to set the clock of the second (ibcmtool.engine.clocks).

    Clocks that too few packets tell of are taken for right, as those of hosts that keep the network's time.
    """
    known = {(item.psn, item.mad): item.time for item in first}
    differences: dict[Address, list[int]] = {}
    for item in second:
        if (item.psn, item.mad) in known:
            differences.setdefault(item.source, []).append(item.time - known[item.psn, item.mad])
    ahead = offset(list(differences.values())) if len(differences) == 2 else round(clock_offset * SECOND)
    return sorted([*first, *(replace(item, time=item.time - ahead) for item in second)], key=attrgetter("time"))
