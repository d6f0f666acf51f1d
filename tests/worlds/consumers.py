"""The programs at both ends: those that listen and those that connect, and how they go wrong."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from worlds.host import Host, Use
from worlds.ids import CONNECTED, Id

Manner = Literal["disconnect", "destroy", "stay"]
SERVICE = 0x0000000001061C06  # RDMA TCP port 7174


@dataclass(eq=False)
class Server:
    """Listens. It accepts, refuses or hangs; it may close, by itself or when its peer is not heard of any more."""

    think: float = 0.01
    answer: Literal["accept", "reject", "hang"] = "accept"
    hold: float | None = None
    manner: Manner = "disconnect"
    keep_alive: float | None = None  # destroys a connection whose other end is gone for that long
    ids: list[Id] = field(default_factory=list)

    def requested(self, time: float, id_: Id) -> None:
        self.ids.append(id_)
        if self.answer != "hang":
            id_.cm.plan.at(time + self.think, self._decide, id_)

    def _decide(self, time: float, id_: Id) -> None:
        if self.answer == "accept":
            id_.cm.accept(time, id_)
        else:
            id_.cm.reject(time, id_)

    def replied(self, time: float, id_: Id) -> None:
        raise AssertionError("a server gets no REP")

    def established(self, time: float, id_: Id) -> None:
        if id_.use is not None:
            id_.use.carried = True
        if self.hold is not None and self.manner != "stay":
            id_.cm.plan.at(time + self.hold, self._close, id_)
        if self.keep_alive is not None:
            id_.cm.plan.at(time + self.keep_alive, self._check, id_)

    def ended(self, time: float, id_: Id, why: str) -> None:
        """Nothing to do."""

    def _close(self, time: float, id_: Id) -> None:
        close(time, id_, self.manner)

    def _check(self, time: float, id_: Id) -> None:
        other = id_.other
        if id_.state != "ESTABLISHED" or not id_.cm.alive or self.keep_alive is None:
            return
        if other is None or not other.cm.alive or other.state not in CONNECTED:
            close(time, id_, "destroy")
        else:
            id_.cm.plan.at(time + self.keep_alive, self._check, id_)

    def killed(self, time: float) -> None:
        """The process ends; its ids with it."""
        for id_ in self.ids:
            id_.cm.destroy(time, id_)
            id_.cm.servers = {service: one for service, one in id_.cm.servers.items() if one is not self}


@dataclass(eq=False)
class Client:
    """Connects, works, closes, and connects again."""

    host: Host
    target: Host
    service: int = SERVICE
    think: float = 0.001
    hold: float | None = 5.0  # None: until the other side closes
    manner: Manner = "disconnect"
    patience: float | None = None  # how long it waits to be connected; None: as long as the CM tries
    again: int = 0  # further attempts
    pause: float = 1.0  # between them
    keep_qp: bool = False  # it connects again with the QP that it had
    notices: float | None = None  # destroys the connection so long after the other end is gone
    hangs: bool = False  # never confirms
    data: bool = False
    xrc: bool = False
    paths: bool = False  # loads an alternate path
    id: Id | None = None

    def start(self, time: float) -> None:
        """The next attempt."""
        host = self.host
        use: Use | None = None
        if not host.up:
            return
        if self.keep_qp and self.id is not None and self.id.use is not None and self.id.cm is host.cm:
            last = self.id.use
            use = Use(last.qpn, time)
            host.boot.uses[last.qpn].append(use)
        self.id = host.cm.connect(time, self, self.target, self.service, use, xrc=self.xrc)
        if self.patience is not None:
            host.network.plan.at(time + self.patience, self._lose_patience, self.id)

    def requested(self, time: float, id_: Id) -> None:
        raise AssertionError("a client gets no REQ")

    def replied(self, time: float, id_: Id) -> None:
        if not self.hangs:
            id_.cm.plan.at(time + self.think, id_.cm.confirm, id_)

    def established(self, time: float, id_: Id) -> None:
        plan = id_.cm.plan
        if self.data:
            for step in (0.001, 0.3, 0.9):
                plan.at(time + step, self._work, id_)
        if self.paths:
            plan.at(time + 0.05, id_.cm.load_path, id_)
        if self.hold is not None and self.manner != "stay":
            plan.at(time + self.hold, self._close, id_)
        if self.notices is not None:
            plan.at(time + self.notices, self._check, id_)

    def ended(self, time: float, id_: Id, why: str) -> None:
        self._retry(time)

    def killed(self, time: float) -> None:
        self.again = 0
        if self.id is not None and self.id.cm.alive:
            self.id.cm.destroy(time, self.id)

    def _work(self, time: float, id_: Id) -> None:
        if id_.state == "ESTABLISHED" and id_.cm.alive:
            id_.host.send_data(time, id_)
            other = id_.other
            if other is not None and other.state == "ESTABLISHED" and other.cm.alive:
                other.host.send_data(time + 0.0001, other)  # an acknowledgement

    def _close(self, time: float, id_: Id) -> None:
        if id_.state != "ESTABLISHED":
            return
        close(time, id_, self.manner)
        if self.manner == "destroy":
            self._retry(time)

    def _check(self, time: float, id_: Id) -> None:
        other = id_.other
        if id_.state != "ESTABLISHED" or not id_.cm.alive or self.notices is None:
            return
        if other is None or not other.cm.alive or other.state not in CONNECTED:
            close(time, id_, "destroy")
            self._retry(time)
        else:
            id_.cm.plan.at(time + self.notices, self._check, id_)

    def _lose_patience(self, time: float, id_: Id) -> None:
        if id_.cm.alive and id_.state in ("REQ_SENT", "MRA_REQ_RCVD", "REP_RCVD"):
            id_.cm.destroy(time, id_)
            self._retry(time)

    def _retry(self, time: float) -> None:
        if self.again > 0:
            self.again -= 1
            self.host.network.plan.at(time + self.pause, self.start)


def close(time: float, id_: Id, manner: Manner) -> None:
    """As its program does: waiting for the answer, or destroying it at once."""
    if manner == "destroy":
        id_.cm.destroy(time, id_)
    else:
        id_.cm.disconnect(time, id_)
