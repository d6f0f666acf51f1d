"""What the numbers of the ports' QP1 say for and against what a finding rests on (connections/traces.py).

Where a host is watched from inside, it takes no numbers (connections/watched_hosts.py).
"""

from __future__ import annotations

from collections.abc import Iterable

from ibcmtool.connections.matching import of_one_boot
from ibcmtool.connections.port_trace import Break
from ibcmtool.connections.stale_duties import at_two_machines
from ibcmtool.connections.traces import DISORDER, Traces
from ibcmtool.connections.watched_hosts import Loss
from ibcmtool.evidence import Ground, proved, unopposed
from ibcmtool.formatting import address as address_text
from ibcmtool.formatting import count, frame
from ibcmtool.model import Conflict, Connection, End, Role, Step
from ibcmtool.packets import Address, CmMessage


class Witness:
    """Answers from the traces of all ports, as far as they go by now. Times are ns."""

    def __init__(self, traces: Traces, *, several_files: bool = False) -> None:
        self._traces = traces
        self._several_files = several_files

    def complete(self, port: Address, start: int, end: int) -> Ground:
        """No CM message that this port sent from `start` to `end` was missed."""
        gap = self._traces.gap(port, start - DISORDER, end)
        if gap is not None:
            return self._incomplete(gap)
        traces, hosts = self._traces, self._traces.hosts
        loss = hosts.loss(port, start, end)
        if loss is not None:
            return _lost(port, loss)
        lived_on = traces.runs_on(port, start, end) or hosts.missed_nothing(port, start, end)
        return Ground("complete", "proved" if lived_on else "unopposed")

    def took_no_leave(self, port: Address, start: int, end: int) -> Ground:
        """This port sent nothing from `start` to `end` that ends what it had at `start`; a restart says nothing."""
        return self.complete(port, start, end) if self._traces.restart(port, start, end) is None else proved("complete")

    def restarted(self, message: CmMessage) -> bool:
        """Whether its port's QP1 began to count anew with this message."""
        return self._traces.restart(message.source, message.time - 1, message.time) is not None

    def heard(self, port: Address) -> Ground:
        """What this port sends is in the capture at all."""
        if self._traces.knows(port):
            return Ground("complete", "unopposed")
        return Ground("complete", "weakened", f"nothing that {address_text(port)} sent was captured")

    def silent(self, port: Address, start: int, end: int, asked: Step | None = None) -> Ground:
        """This port sent nothing from `start` to `end` that was not captured: proved by what it sent later, or open.

        asked: what it did not answer. Inputs that have not captured that, or had their clocks set since, are of other
        clocks, and prove nothing.
        """
        known = self.complete(port, start, end)
        inputs = None if asked is None else self._traces.by_clock_of(asked)
        elsewhere = known.strength == "proved" and not (
            self._traces.runs_on(port, start, end, inputs) or self._traces.hosts.missed_nothing(port, start, end)
        )
        if known.strength != "unopposed" and not elsewhere:
            return known
        return Ground("complete", "weakened", f"nothing of {address_text(port)} was captured later that could prove it")

    def same_life(self, port: Address, start: int, end: int) -> Ground:
        """This port's CM has not restarted from `start` to `end`."""
        restart = self._traces.restart(port, start, end)
        if restart is not None:
            return Ground("same life", "refuted", self._restarted(restart), _frames(restart))
        fall = self._traces.fall(port, start, end)
        if fall is not None:
            return Ground("same life", "weakened", f"perhaps {self._restarted(fall)}", _frames(fall))
        return Ground("same life", "proved" if self._traces.runs_on(port, start, end) else "unopposed")

    def same_machine(self, before: End, now: End, start: int, end: int) -> Ground:
        """The CM at this end is that of the earlier connection's end, and has that still.

        By the CA GUID, and by numbers that run on. The first few of a new life may seem to, where those before them
        were missed; but it counts its Communication IDs from another base, and its QPNs anew.
        """
        if before.ca_guid and now.ca_guid and before.ca_guid != now.ca_guid:
            return Ground("same machine", "refuted", f"another CA answers at {address_text(now.address)}")
        if not before.ca_guid or not now.ca_guid:
            return Ground("same machine", "weakened", f"the CA GUID at {address_text(now.address)} is not known")
        if before.address != now.address:
            return Ground("same machine", "weakened", "one CA GUID has two addresses")
        if self._traces.runs_on(now.address, start, end):
            return proved("same machine")
        where = address_text(now.address)
        if before.qpn and before.qpn == now.qpn:
            return Ground("same life", "weakened", f"{where} names one QPN of its own in both, as after a restart")
        if before.comm_id and now.comm_id and not of_one_boot(before.comm_id, now.comm_id):
            return Ground("same life", "weakened", f"the Communication IDs of {where} are of two boots")
        return unopposed("same machine")

    def same_port(self, before: End, now: End) -> Ground:
        """Both are ends of one machine, whatever it did in between: a GUID that is at two addresses may be cloned."""
        if before.address == now.address:
            return Ground("same machine", "proved")
        return Ground("same machine", "weakened", f"its CA GUID is at {address_text(before.address)} too")

    def two_machines(self, conflict: Conflict, refused: Connection, role: Role) -> bool:
        """Whether the end that was refused, and the one whose QPN it named, are two machines with one CA GUID."""
        return at_two_machines(conflict, refused, role, self._traces)

    def in_order(self, file: int) -> bool:
        """Whether no message of an input stands before one that its sender had sent earlier."""
        return self._traces.disorder(file) == 0

    def gaps(self, connections: Iterable[Connection], end: int) -> list[Ground]:
        """A ground against each port of these connections of which a message may be missing that belongs to them."""
        found: dict[Address, Ground] = {}
        for connection in connections:
            for port in (connection.active.address, connection.passive.address):
                if port not in found:
                    found.update((port, ground) for ground in self.missing(port, connection.opened, end))
        return list(found.values())

    def missing(self, port: Address, start: int, end: int) -> list[Ground]:
        """A ground against this port if a message may be missing that it sent after `start` and until `end`."""
        gap, loss = self._traces.gap(port, start, end, new_lives=False), self._traces.hosts.loss(port, start, end)
        if gap is not None:
            return [self._incomplete(gap)]
        return [] if loss is None else [_lost(port, loss)]

    def _incomplete(self, gap: Break) -> Ground:
        sign = (
            f"{count(gap.missing, 'message')} of {address_text(gap.before.source)} missing between"
            f" {self._between(gap)}, QP1 PSN {gap.before.psn} -> {gap.after.psn}"
        )
        return Ground("complete", "weakened", sign, _frames(gap))

    def _restarted(self, restart: Break) -> str:
        return (
            f"{address_text(restart.before.source)} restarted between {self._between(restart)}, QP1 PSN"
            f" {restart.before.psn} -> {restart.after.psn}"
        )

    def _between(self, gap: Break) -> str:
        before, after = (frame(place, self._several_files) for place in _frames(gap))
        return f"frames {before} and {after}"


def _lost(port: Address, loss: Loss) -> Ground:
    return Ground("complete", "weakened", f"{count(loss.events, 'event')} of the host of {address_text(port)} lost")


def _frames(gap: Break) -> tuple[tuple[int, int], ...]:
    return ((gap.before.file, gap.before.frame), (gap.after.file, gap.after.frame))
