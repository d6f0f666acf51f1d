"""Whose message is it? The registry finds the connection that a message belongs to, or begins one."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import islice
from typing import Final

from ibcmtool.connections.codes import CONSUMER_REJECT
from ibcmtool.connections.connection_index import ConnectionIndex, Match, answers_another, conflict_with, is_twin
from ibcmtool.connections.creation import (
    EndpointNames,
    adopt,
    explain,
    new_connection,
    partial_connection,
    stale_connection,
)
from ibcmtool.connections.matching import continues, rej_reason, reply_qpn
from ibcmtool.connections.traces import DISORDER
from ibcmtool.messages import PAIRED, Dreq, Mra, Paired, Rej, Rep, Req, Request, SidrRep, SidrReq
from ibcmtool.model import PEER, Conflict, Connection, Role, Step
from ibcmtool.packets import Address, CmMessage

MOST_CROSSING: Final = 256  # of the newest connections, among which one that crossed another is looked for
MOST_REFUSALS: Final = 1024  # remembered until their DREQ comes, the newest
ANSWERS: Final = (*PAIRED, SidrRep)


class Registry:
    """All connections that live, and what the messages say of their ends' identities.

    `apply` takes the first message of a connection that begins with one that another has had already; `leave` is called
    with a connection whose passive end is replaced.
    """

    def __init__(
        self,
        endpoint_names: EndpointNames | None,
        apply: Callable[[Connection, Role, CmMessage], object],
        leave: Callable[[Connection], object],
    ) -> None:
        self._index = ConnectionIndex()
        self.live: OrderedDict[int, Connection] = OrderedDict()  # by id, the oldest first
        self._endpoint_names = endpoint_names
        self._apply = apply
        self._leave = leave
        self._count = 0
        # REJ 10s that no known connection explains: by sender and the QPN refused.
        self.refusals: dict[tuple[Address, int | None], tuple[Connection, Role]] = {}

    def remove(self, connection: Connection) -> None:
        """It has ended."""
        self._index.remove(connection)
        del self.live[connection.id]

    def match(self, message: CmMessage) -> Match | None:
        """The connection of a message, which it may begin, and the end that sent it; None where it belongs to none."""
        fields = message.fields
        if isinstance(fields, ANSWERS):
            return self._answer(message, fields)
        if isinstance(fields, (Req, SidrReq)):
            return self._request(message, fields)
        return None  # ClassPortInfo, SAP and SPR (layout unknown), attributes unknown

    def _request(self, message: CmMessage, fields: Request) -> Match | None:
        """The connection of a REQ or SIDR_REQ, which may begin one; None when it is cut before its id."""
        if (fields.request_id if isinstance(fields, SidrReq) else fields.local_comm_id) is None:
            return None
        known = self._index.request(message, fields)
        if known is not None and known.request is None and isinstance(fields, Req) and _begins(known, message):
            adopt(known, fields, self._endpoint_names)
            self._index.add_holder(known, known.active)
            return known, "active"
        if known is not None and continues(known, message):
            return known, "active"
        connection = new_connection(self._number(), message, fields, self._endpoint_names)
        if known is not None:
            if any(step.message.mad == message.mad for step in known.steps):
                connection.late_duplicate_of = known
            else:
                connection.comm_id_conflict = conflict_with(known, "active", connection.passive)
        connection.proxied_copy_of = self._index.twin(connection, message)
        connection.request_conflicts = self._index.conflicts(
            connection, connection.active, connection.passive, message.time
        )
        if connection.request_conflicts and connection.late_duplicate_of is None:
            _supersede(connection.request_conflicts)
        self._enter(connection)
        return connection, "active"

    def _answer(self, message: CmMessage, fields: Paired | SidrRep) -> Match | None:
        """The connection of any other message, which may be the first that the capture shows of it; None as above."""
        if (fields.request_id if isinstance(fields, SidrRep) else fields.remote_comm_id) is None:
            return None
        match = self._index.answer(message, fields)
        if match is None or _is_of_another_life(*match, fields):
            match = self._stale(message, fields) or partial_connection(self._number(), message, fields)
            connection = match[0]
            self._enter(connection)
            self._index.add_passive(connection)
            return match
        connection, sender = match
        if sender == "passive" and isinstance(fields, (Rep, Mra)):
            if connection.reply is not None and _is_another(connection, fields):
                connection = self._twin(connection, message) or self._phantom(connection, message) or connection
            self._bind(connection, message, fields)
        elif connection.passive.comm_id is None and not isinstance(fields, (Rej, SidrRep)):
            # The REP was not captured; this message names both ids.
            connection.passive.comm_id = fields.remote_comm_id if sender == "active" else fields.local_comm_id
            self._index.add_passive(connection)
        return connection, sender

    def _stale(self, message: CmMessage, fields: Paired | SidrRep) -> Match | None:
        """The connection from before the capture, if this DREQ is the one that a refusal calls for."""
        if not isinstance(fields, Dreq):
            return None
        refused = self.refusals.get((message.source, fields.remote_qpn))
        if refused is None or refused[0].peer(refused[1]).address != message.destination:
            return None
        del self.refusals[message.source, fields.remote_qpn]
        return stale_connection(self._number(), message, fields, *refused)

    def explained(self, old: Connection, dreq: Step) -> Connection | None:
        """The attempt that was refused because of a known connection, as this DREQ on it shows.

        Both are of CAs without a GUID (virtual functions), for which no conflict of QPNs is known.
        """
        fields, sender = dreq.message.fields, dreq.sender
        if not isinstance(fields, Dreq) or sender == "unknown" or old.peer(sender).ca_guid != 0:
            return None
        refused = self.refusals.get((dreq.message.source, fields.remote_qpn))
        if refused is None or refused[0].peer(refused[1]).ca_guid != 0 or old.peer(sender).qpn != fields.remote_qpn:
            return None
        del self.refusals[dreq.message.source, fields.remote_qpn]
        attempt, holder = refused
        explain(attempt, holder, Conflict(old, PEER[sender], True, old.peer(sender).state, "ESTABLISHED"))
        old.stale_by, old.outcome = old.stale_by or attempt, "stale"
        return attempt

    def refused_as_stale(self, connection: Connection, reject: CmMessage, sender: Role) -> None:
        """A REJ 10 that no known connection explains: the DREQ behind it shows the one from before the capture."""
        qpn = connection.peer(sender).qpn
        if qpn:
            self.refusals[reject.source, qpn] = (connection, sender)
            if len(self.refusals) > MOST_REFUSALS:
                del self.refusals[next(iter(self.refusals))]

    def crossing(self, refused: Connection, reject: Step) -> Connection | None:
        """The attempt of who refused another one, for the same service, that was under way when that one came.

        Programs of equals settle so which of two connections stays; a consumer's REJ says it.
        """
        if reject.sender != "passive" or refused.sidr or rej_reason(reject.message) != CONSUMER_REJECT:
            return None
        for other in islice(reversed(self.live.values()), MOST_CROSSING):
            if (
                other.active.address == refused.passive.address
                and other.passive.address == refused.active.address
                and other.service_id == refused.service_id
                and other.opened <= reject.message.time
                and all(step.sender == "active" for step in other.steps if step.message.time < refused.opened)
            ):
                return other
        return None

    def _twin(self, connection: Connection, message: CmMessage) -> Connection | None:
        """The connection for a REP that an SR-IOV proxy has sent on with another id; it has the REQ in common."""
        first = next((step.message for step in connection.steps if step.message.type == "REP"), None)
        if first is None or connection.request is None or not is_twin(first, message):
            return None
        request = next(step.message for step in connection.steps if step.message.type == "REQ")
        twin = new_connection(self._number(), request, connection.request, self._endpoint_names)
        twin.proxied_copy_of = connection
        self._enter(twin)
        self._apply(twin, "active", request)
        return twin

    def _phantom(self, connection: Connection, message: CmMessage) -> Connection | None:
        """The connection for a REP with a new id after the close: a late copy of the REQ was taken for a new one.

        That copy may not have been captured; then the REQ itself stands for it.
        """
        closed, request = connection.closed, next((s for s in connection.steps if s.message.type == "REQ"), None)
        if closed is None or connection.request is None or message.type != "REP" or request is None:
            return None
        if any(step.message.type == "REQ" and step.message.time > closed for step in connection.steps):
            return None  # it came again, and that was accepted
        if message.tid != request.message.tid or connection.passive.restarted is not None or connection.reject:
            return None
        if connection.outcome == "timed_out":
            return None  # the repeated REQ of an attempt that came to nothing is answered, if late
        ended = {  # clocks differ: an input that shows the end, too, tells by its own order what came behind that
            file: frame
            for step in connection.steps
            if (end := step.message).time == closed
            for file, frame in ((end.file, end.frame), *((copy.file, copy.frame) for copy in step.sightings))
        }
        late = next((it for it in request.sightings if it.time > closed and it.frame > ended.get(it.file, 0)), None)
        again = replace(request.message, time=message.time)
        if late is not None:
            again = replace(again, file=late.file, frame=late.frame, time=late.time)
        phantom = new_connection(self._number(), again, connection.request, self._endpoint_names)
        phantom.late_duplicate_of = connection
        self._enter(phantom)
        self._apply(phantom, "active", again)
        return phantom

    def _bind(self, connection: Connection, message: CmMessage, fields: Rep | Mra) -> None:
        """Learn the passive end from its MRA or REP. A REP after an end (a REQ taken as new) replaces what was."""
        passive = connection.passive
        if passive.comm_id is not None and passive.comm_id != fields.local_comm_id:
            if passive.state not in ("REQ_RCVD", "MRA_REQ_SENT", "IDLE", "LISTEN", "TIMEWAIT"):
                return  # a second answer while the first one stands: not a new life
            self._index.release(connection)
            self._leave(connection)
            passive.timewait = passive.qpn = connection.reply = None
        elif passive.comm_id is not None and (isinstance(fields, Mra) or connection.reply is not None):
            return
        passive.comm_id = fields.local_comm_id
        if isinstance(fields, Rep):
            connection.reply = fields
            passive.qpn = reply_qpn(connection, fields)
            passive.ca_guid = fields.local_ca_guid
            connection.reply_conflicts = self._index.conflicts(connection, passive, connection.active, message.time)
            if connection.reply_conflicts:
                _supersede(connection.reply_conflicts)
        self._index.add_passive(connection)

    def _enter(self, connection: Connection) -> None:
        """A connection that begins."""
        self.live[connection.id] = connection
        self._index.add_active(connection)

    def _number(self) -> int:
        self._count += 1
        return self._count


def _begins(connection: Connection, request: CmMessage) -> bool:
    """Whether a connection that lacks its REQ can have begun with this one: nothing that is over begins again."""
    if answers_another(connection, request):
        return False
    return connection.closed is None or request.time - connection.opened < DISORDER


def _supersede(conflicts: Iterable[Conflict]) -> None:
    """The QPNs of these ends belong to another connection now."""
    for conflict in conflicts:
        conflict.other.end(conflict.owner).superseded = True


def _is_of_another_life(connection: Connection, sender: Role, fields: Paired | SidrRep) -> bool:
    """Whether it is another answer after the close, where no REQ was captured.

    Of a phantom, which that REQ opened, or of a CM that gives each life the same id.
    """
    return (
        isinstance(fields, Rep)
        and sender == "passive"
        and connection.request is None
        and connection.closed is not None
        and connection.passive.restarted is None
        and connection.passive.comm_id is not None
        and _is_another(connection, fields)
    )


def _is_another(connection: Connection, fields: Rep | Mra) -> bool:
    """Whether this is the answer of another passive end than the REP that was captured: by its id, or by its QPN."""
    reply = connection.reply
    if connection.passive.comm_id != fields.local_comm_id:
        return True
    if not isinstance(fields, Rep) or not isinstance(reply, Rep) or None in (fields.local_qpn, reply.local_qpn):
        return False
    return fields.local_qpn != reply.local_qpn
