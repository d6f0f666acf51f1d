"""The index of connections: which one a message belongs to, and who else holds a QPN or a Communication ID.

Matching follows the ids (IBA 12.7.1), never the TransactionID alone: a passive side's DREQ has a TID of its own.
Every message after the REQ carries (Local, Remote) from its sender's view; a REJ may carry zeros. Of several
connections with the same ids (two hosts may draw the same 32 bits) the addresses decide, then the newest wins.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Final, TypeVar

from ibcmtool.connections.codes import MRA_OF_REQ, TIMEOUT
from ibcmtool.connections.matching import has_left, is_xrc, misaddressed, same_mad
from ibcmtool.messages import Mra, Paired, Rej, Rep, Request, SidrRep, SidrReq
from ibcmtool.model import Conflict, Connection, End, Role, State
from ibcmtool.packets import CmMessage

# A proxy passes a message on within this; two captures of it may have clocks that far apart.
TWIN_WINDOW: Final = 100_000_000
TWIN_CONTENT: Final = 28  # in the MAD of a REQ or REP, behind the TransactionID and the Local Communication ID
TWIN_TID: Final = 0xFFFFFFFF  # the half of the TransactionID that its sender chose

MOST_ATTEMPTS: Final = 64  # without an answer, behind which the connection that is held is looked for

Key = TypeVar("Key")
Value = TypeVar("Value")

CLOSED_STATES: Final[frozenset[State]] = frozenset({"IDLE", "LISTEN", "TIMEWAIT", "UNKNOWN"})


Match = tuple[Connection, Role]  # a known connection, and which of its ends sent the message


class ConnectionIndex:
    """Indexes over the connections that may still get a message or constrain a later one."""

    def __init__(self) -> None:
        self._active_ids: defaultdict[int | None, list[Connection]] = defaultdict(list)
        self._sidr_ids: defaultdict[int | None, list[Connection]] = defaultdict(list)
        self._passive_ids: defaultdict[int | None, list[Connection]] = defaultdict(list)
        # By active and passive id.
        self._pairs: defaultdict[tuple[int | None, int | None], list[Connection]] = defaultdict(list)
        self._holders: defaultdict[tuple[int, int], list[tuple[Connection, Role]]] = defaultdict(list)  # (GUID, QPN)

    # -- keeping ---------------------------------------------------------------------------------------------------

    def add_active(self, connection: Connection) -> None:
        """Enter the active end's comm id (of a SIDR exchange: its Request ID) and QPN."""
        end = connection.active
        if end.comm_id is not None:
            (self._sidr_ids if connection.sidr else self._active_ids)[end.comm_id].append(connection)
        self.add_holder(connection, end)

    def add_passive(self, connection: Connection) -> None:
        """Enter the passive end's comm id and QPN, and the pair of ids."""
        end = connection.passive
        if end.comm_id is not None:
            self._passive_ids[end.comm_id].append(connection)
            if connection.active.comm_id is not None:
                self._pairs[(connection.active.comm_id, end.comm_id)].append(connection)
        self.add_holder(connection, end)

    def add_holder(self, connection: Connection, end: End) -> None:
        """Enter the QPN of one end, once it and the CA GUID are known. Of twins the first one holds it for both."""
        if end.ca_guid and end.qpn and connection.proxied_copy_of is None:
            holders = self._holders[(end.ca_guid, end.qpn)]
            if (connection, end.role) not in holders:
                holders.append((connection, end.role))

    def remove(self, connection: Connection) -> None:
        """Forget a connection that can neither get a message nor constrain another any more."""
        active = connection.active
        _discard(self._sidr_ids if connection.sidr else self._active_ids, active.comm_id, connection)
        if active.ca_guid and active.qpn:
            _discard(self._holders, (active.ca_guid, active.qpn), (connection, "active"))
        self.release(connection)

    def release(self, connection: Connection) -> None:
        """Forget the passive end: its part in the exchange is over, and a new REP may take its place."""
        active, passive = connection.active, connection.passive
        _discard(self._passive_ids, passive.comm_id, connection)
        if active.comm_id is not None and passive.comm_id is not None:
            _discard(self._pairs, (active.comm_id, passive.comm_id), connection)
        if passive.ca_guid and passive.qpn:
            _discard(self._holders, (passive.ca_guid, passive.qpn), (connection, "passive"))

    # -- whose is this message? ------------------------------------------------------------------------------------

    def request(self, message: CmMessage, fields: Request) -> Connection | None:
        """The connection whose REQ or SIDR_REQ has the same id from the same CA (or the same address)."""
        if isinstance(fields, SidrReq):
            fitting = (c for c in reversed(self._sidr_ids.get(fields.request_id, ())) if _fits(c, "active", message))
            return next(fitting, None)
        guid = fields.local_ca_guid
        for connection in reversed(self._active_ids.get(fields.local_comm_id, ())):
            known = connection.active.ca_guid
            if known == guid if known and guid else _fits(connection, "active", message):
                return connection
        return None

    def answer(self, message: CmMessage, fields: Paired | SidrRep) -> Match | None:
        """Where any message but REQ and SIDR_REQ belongs; None when its connection was never seen."""
        if isinstance(fields, SidrRep):
            return _newest(self._sidr_ids.get(fields.request_id, ()), "passive", message)
        if isinstance(fields, Rej):
            return self._reject(message, fields)
        local, remote = fields.local_comm_id, fields.remote_comm_id
        found = self._by_pair(local, remote, message)
        of_req = isinstance(fields, Rep) or (isinstance(fields, Mra) and fields.message_mraed == MRA_OF_REQ)
        if of_req and (found is None or found[0].closed is not None or not _copies_tid(found[0], message)):
            # A CM may always use the same ids: the TransactionID tells its lives apart, else the newest has no answer.
            over, known = found, self._active_ids.get(remote, ())
            found = _newest([one for one in known if _copies_tid(one, message)], "passive", message)
            found = found or _newest([one for one in known if one.passive.comm_id is None], "passive", message)
            if over is not None and any(same_mad(step.message, message) for step in over[0].steps):
                found = over  # once more
            elif found is None and over is not None and over[0].closed is None:
                found = over
        if found is None or (message.type == "RTU" and has_left(found[0], message)):
            found = self._without_reply(local, remote, message, exact=found is not None) or found
        elif message.type == "DREQ" and misaddressed(*found, message):
            found = self._without_reply(local, remote, message, exact=True) or found
        return found

    def _without_reply(self, local: int | None, remote: int | None, message: CmMessage, *, exact: bool) -> Match | None:
        """The REP was not captured, so the pair is unknown; or an RTU names another pair than the REP gave it.

        exact: some connection has this pair, so that only one whose pair is unknown can have it too.
        """
        for connection in reversed(self._active_ids.get(local, ())):
            unknown = connection.passive.comm_id is None
            if (unknown or (message.type == "RTU" and not exact)) and _fits(connection, "active", message):
                return (connection, "active")
        for connection in reversed(self._active_ids.get(remote, ())):
            if connection.passive.comm_id is None and _fits(connection, "passive", message):
                return (connection, "passive")
        return None

    def _reject(self, message: CmMessage, fields: Rej) -> Match | None:
        local, remote = fields.local_comm_id, fields.remote_comm_id
        found = self._by_pair(local, remote, message) if local and remote else None
        if found is None and fields.reason == TIMEOUT and fields.additional_reject_info is not None:
            # The Remote Communication ID may be 0: the CA GUID tells the sender (IBA 12.6.7.2, reason 4).
            guid = int.from_bytes(fields.additional_reject_info[:8], "big")
            found = self._timed_out(local, guid, message)
        if found is None and remote:
            found = _newest(self._active_ids.get(remote, ()), "passive", message)
        if found is None and local:
            found = _newest(self._active_ids.get(local, ()), "active", message)
        return found

    def _timed_out(self, local: int | None, guid: int, message: CmMessage) -> Match | None:
        sides: tuple[tuple[Role, defaultdict[int | None, list[Connection]]], ...]
        sides = (("active", self._active_ids), ("passive", self._passive_ids))
        for sender, index in sides:
            for connection in reversed(index.get(local, ())):
                if connection.end(sender).ca_guid == guid and _fits(connection, sender, message):
                    return (connection, sender)
        return None

    def _by_pair(self, local: int | None, remote: int | None, message: CmMessage) -> Match | None:
        """By both ids. A single one that has them is it, even between other addresses: one connection is reached on
        another path (APM, LMC, a second port) more easily than two hosts draw the same two ids.
        """
        as_active, as_passive = self._pairs.get((local, remote)), self._pairs.get((remote, local))
        if as_passive is None:
            if as_active is None:
                return None
            if len(as_active) == 1:
                return (as_active[0], "active")
        elif as_active is None and len(as_passive) == 1:
            return (as_passive[0], "passive")
        candidates: list[Match] = [(connection, "active") for connection in as_active or ()]
        candidates += [(connection, "passive") for connection in as_passive or ()]
        # The newest, and of those that a CM with fixed ids has had, the one whose QPN is named.
        fitting = [match for match in candidates if _fits(*match, message)]
        fitting.sort(key=lambda match: (misaddressed(match[0], match[1], message), -match[0].id))
        return fitting[0] if fitting else None

    # -- who else holds it? ----------------------------------------------------------------------------------------

    def twin(self, connection: Connection, message: CmMessage) -> Connection | None:
        """The connection that a new one is the twin of, by its REQ: the same attempt with other ids (see is_twin)."""
        holders = self._holders.get((connection.active.ca_guid or 0, connection.active.qpn or 0))
        if holders is None:
            return None
        requests = ((other, other.steps[0].message) for other, role in holders if role == "active")
        return next((other for other, request in requests if is_twin(request, message)), None)

    def conflicts(self, connection: Connection, end: End, peer: End, time: int) -> tuple[Conflict, ...]:
        """Earlier connections that have a claim to `end`'s QPN (same CA GUID): open, or in timewait for some side.

        Few: the last one that used it, the last one of those with this peer, which may hold it still, and the newest
        attempt behind that whose answer was not captured. XRC shares QPNs on purpose.
        """
        if not (end.ca_guid and end.qpn) or is_xrc(connection):
            return ()
        found: list[Conflict] = []
        newest, attempts = True, 0
        for other, role in reversed(self._holders.get((end.ca_guid, end.qpn), ())):
            if other is connection or other is connection.proxied_copy_of or is_xrc(other):
                continue
            if other.reply is None and other.closed is not None:
                continue  # refused or unanswered: it never used the QPN
            same_peer, unanswered = _is_peer(other.peer(role), peer), is_unanswered(other)
            attempts += unanswered
            if attempts > MOST_ATTEMPTS:
                break
            if (newest or same_peer) and (not unanswered or attempts == 1) and _constrains(other, time):
                found.append(conflict_with(other, role, peer)._replace(newest=newest))
            if same_peer and not unanswered:
                if other.peer(role).state not in CLOSED_STATES:  # while it has this one it takes none of the attempts
                    found = [conflict for conflict in found if not is_unanswered(conflict.other)]
                break
            newest = False
        return tuple(reversed(found))


def is_unanswered(connection: Connection) -> bool:
    """Whether nothing shows that its REQ was accepted."""
    return connection.reply is None and connection.passive.comm_id is None and connection.established is None


def conflict_with(other: Connection, owner: Role, peer: End) -> Conflict:
    """How `other`, in which the CA at hand is `owner`, stands at this moment towards a message sent to `peer`."""
    other_peer = other.peer(owner)
    return Conflict(other, owner, _is_peer(other_peer, peer), other.end(owner).state, other_peer.state)


def _is_peer(other: End, peer: End) -> bool:
    """Whether these can be ends of one CA."""
    return other.ca_guid == peer.ca_guid if other.ca_guid and peer.ca_guid else other.address.matches(peer.address)


def is_twin(first: CmMessage, message: CmMessage) -> bool:
    """Whether a REQ or REP is another one with an id put in its place by an SR-IOV proxy.

    Such a proxy (mlx4) gives it another Local Communication ID, and may write which function sent it into the upper
    half of the TransactionID. All else stays: the lower half, the QPN, the starting PSN, the GIDs, the private data. A
    second attempt differs in the TransactionID at least.
    """
    return (
        first.type == message.type
        and abs(message.time - first.time) < TWIN_WINDOW
        and (first.tid ^ message.tid) & TWIN_TID == 0
        and first.mad[TWIN_CONTENT:] == message.mad[TWIN_CONTENT:]
        and first.source == message.source
        and first.destination == message.destination
    )


def _constrains(connection: Connection, time: int) -> bool:
    for end in (connection.active, connection.passive):
        if end.state not in CLOSED_STATES or (end.timewait is not None and time < end.timewait.maximum):
            return True
    return False


def answers_another(partial: Connection, request: CmMessage) -> bool:
    """Whether what was captured first of a connection is the answer to another REQ with the same id."""
    return partial.steps[0].message.type in ("REP", "MRA", "REJ") and not _copies_tid(partial, request)


def _copies_tid(connection: Connection, answer: CmMessage) -> bool:
    """Whether an answer has the TransactionID of this connection's REQ, or the half that a proxy leaves as it is."""
    return (connection.steps[0].message.tid ^ answer.tid) & TWIN_TID == 0


def _newest(candidates: Sequence[Connection], sender: Role, message: CmMessage) -> Match | None:
    """Of connections with the active end's id; the TransactionID, copied from the REQ, vouches for other addresses."""
    for connection in reversed(candidates):
        if _fits(connection, sender, message):
            return (connection, sender)
    for connection in reversed(candidates):
        if connection.steps[0].message.tid == message.tid:
            return (connection, sender)
    return None


def _fits(connection: Connection, sender: Role, message: CmMessage) -> bool:
    source, destination = connection.end(sender).address, connection.peer(sender).address
    # Addresses of one decoder are the same objects.
    return (source is message.source or source.matches(message.source)) and (
        destination is message.destination or destination.matches(message.destination)
    )


def _discard(index: defaultdict[Key, list[Value]], key: Key | None, value: Value) -> None:
    if key is None:
        return
    values = index.pop(key, None)
    if values is None or (len(values) == 1 and values[0] == value):
        return
    kept = [kept for kept in values if kept != value]
    if kept:
        index[key] = kept
