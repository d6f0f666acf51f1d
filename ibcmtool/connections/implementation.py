"""Whose CM is it? What the messages of a CA show of the software behind it.

The evidence, and where it comes from:

* TransactionID. Each CM numbers its own requests (REQ, DREQ, LAP; answers copy the number). Linux ib_cm puts the small
  number of its MAD agent into the high half and its Communication ID, in the byte order of the host, into the low half
  (cm_form_tid): byte-swapped from most hosts, as on the wire from a big-endian one. Until 4.19 it also set one of the
  two upper bits in a DREQ and in a LAP. illumos ibcm puts the
  Communication ID into the low half, the message type into the four bits above, and the milliseconds since boot into
  the rest (ibcm_generate_tranid). 32 bits do not agree by chance.
* Timers. Consumers of rdma_cm do not set them: upstream both CM response timeouts are 20 and Max CM Retries 15, in MLNX
  OFED they are 22, 22 and 15. Only REQs to an RDMA IP CM service id count: ipoib_cm, ib_srp and others set their own.
* MRA. rdma_cm (in 7.2 ib_cm itself) asks for a Service Timeout of 24. A passive side shows little else; its CA is
  known from the REP on.
* REJ 4. illumos tells a peer that it waited in vain, and calls the message that got no answer the rejected one: 0 from
  the active side, 1 from the passive one. Linux says nothing when its retries end, and otherwise calls it 2. Other CMs
  may do as illumos does, so this alone is a weak sign: it changes no timer.

illumos also repeats its DREQ on the scale of ACK delays; the TransactionID of that DREQ says more, and sooner.
A CA whose messages do not fit together (a CM in user space beside that of the kernel, one GUID for two machines) is
nobody's.
"""

from __future__ import annotations

from typing import Final

from ibcmtool.connections.codes import MRA_OF_REQ, REP_REJECTED, REQ_REJECTED, TIMEOUT
from ibcmtool.messages import Dreq, Lap, Mra, Rej, Rep, Req
from ibcmtool.model import Connection, Implementation, Step, TimewaitModel
from ibcmtool.packets import CmMessage

# Requests, with a TransactionID of their sender's own: the number that illumos has for the type, and old Linux's bit.
REQUESTS: Final = {"REQ": (0x0, 0), "DREQ": (0x5, 0x80000000), "LAP": (0x9, 0x40000000)}
SHOWING: Final = frozenset({*REQUESTS, "REP", "REJ"})

LEAST_CLOCK: Final = 1 << 16  # the high half of illumos 4 s after boot; Linux counts its MAD agents from 1
RDMA_IP_CM: Final = 0x0000000001  # the upper 40 bits of the service ids
UPSTREAM_TIMERS, OFED_TIMERS = (20, 20, 15), (22, 22, 15)
MRA_SETTING: Final = 24

LINUX: Final = Implementation("Linux", "certain", "its TransactionIDs")
LINUX_BY_MRA: Final = Implementation("Linux", "possible", "the Service Timeout of its MRA")
RDMA_CM: Final = Implementation("Linux rdma_cm", "certain", "its TransactionIDs and CM timers")
OFED: Final = Implementation("MLNX OFED", "probable", "its TransactionIDs and CM timers")
ILLUMOS: Final = Implementation("illumos", "certain", "its TransactionIDs")
ILLUMOS_BY_REJ: Final = Implementation("illumos", "possible", "its REJ for timeout")
OTHER: Final = Implementation("other", "certain", "its TransactionIDs")  # never reported: it only contradicts

# What the evidence comes to: the first reading that leaves nothing unexplained.
READINGS: Final = (
    (LINUX_BY_MRA, {LINUX_BY_MRA}),
    (LINUX, {LINUX, LINUX_BY_MRA}),
    (RDMA_CM, {RDMA_CM, LINUX, LINUX_BY_MRA}),
    (OFED, {OFED, LINUX, LINUX_BY_MRA}),
    (LINUX, {RDMA_CM, OFED, LINUX, LINUX_BY_MRA}),  # which one is open
    (ILLUMOS_BY_REJ, {ILLUMOS_BY_REJ}),
    (ILLUMOS, {ILLUMOS, ILLUMOS_BY_REJ}),
)

ENOUGH: Final = 8  # messages of one CA that show something; then it is not looked at any more
MOST_CAS = 4096  # the newest stay


class Implementations:
    """What is known of each CA, by its GUID."""

    def __init__(self) -> None:
        self._evidence: dict[int, list[Implementation]] = {}
        self._known: dict[int | None, Implementation | None] = {}
        self.settled: set[int] = set()  # CAs that need not be looked at any more

    def see(self, connection: Connection, step: Step) -> None:
        """Take the evidence of one message of a SHOWING type, from a CA that is not settled."""
        if step.sender == "unknown":
            return
        guid = connection.end(step.sender).ca_guid
        if not guid:
            return
        seen = self._evidence.get(guid)
        if step.retransmission_of is not None or step.message.icrc_ok is False:
            return
        found = evidence(connection, step)
        if found is None:
            return
        if seen is None:
            if len(self._evidence) >= MOST_CAS:
                oldest = next(iter(self._evidence))
                del self._evidence[oldest], self._known[oldest]
                self.settled.discard(oldest)
            seen = self._evidence[guid] = []
        if found not in seen:
            self._known[guid] = _reading({*seen, found})
        seen.append(found)
        if len(seen) >= ENOUGH:
            self.settled.add(guid)

    def of(self, guid: int | None) -> Implementation | None:
        """Whose CM this CA runs; None: nothing known, or the evidence contradicts itself."""
        return self._known.get(guid)

    def timewait_model(self, guid: int | None) -> TimewaitModel:
        """The model of timewait_models.py that fits this CA."""
        return "illumos" if self.of(guid) is ILLUMOS else "auto"


def _reading(seen: set[Implementation]) -> Implementation | None:
    return next((reading for reading, explained in READINGS if seen <= explained), None)


def evidence(connection: Connection, step: Step) -> Implementation | None:
    """What this message alone says about its sender; None: nothing."""
    message, fields = step.message, step.message.fields
    if isinstance(fields, (Req, Dreq, Lap)):
        found = _by_tid(message, fields.local_comm_id)
        return _by_timers(fields) or found if found is LINUX and isinstance(fields, Req) else found
    if isinstance(fields, Rep):
        asked = "m" in connection.history and _is_rdma_ip_cm(connection.service_id) and _asked_for_time(connection)
        return LINUX_BY_MRA if asked else None
    if not isinstance(fields, Rej) or fields.reason != TIMEOUT or connection.request is None:
        return None
    unanswered = REQ_REJECTED if step.sender == "active" else REP_REJECTED
    return ILLUMOS_BY_REJ if fields.message_rejected == unanswered else None


def _asked_for_time(connection: Connection) -> bool:
    """Whether the passive side sent the MRA of rdma_cm."""
    sent = (step.message.fields for step in connection.steps if step.sender == "passive")
    mras = (fields for fields in sent if isinstance(fields, Mra))
    return any(mra.message_mraed == MRA_OF_REQ and mra.service_timeout == MRA_SETTING for mra in mras)


def _by_tid(message: CmMessage, comm_id: int | None) -> Implementation | None:
    if comm_id is None:
        return None
    high, low = message.tid >> 32, message.tid & 0xFFFFFFFF
    swapped = int.from_bytes(comm_id.to_bytes(4, "little"), "big")
    number, old_bit = REQUESTS[message.type]
    if low == comm_id and high >= LEAST_CLOCK:
        if swapped == comm_id:
            return None  # reads the same both ways
        return ILLUMOS if high & 0xF == number else OTHER
    return LINUX if low in (comm_id, swapped, comm_id | old_bit, swapped | old_bit) else OTHER


def _by_timers(request: Req) -> Implementation | None:
    """The rdma_cm whose timers a REQ of Linux carries."""
    if not _is_rdma_ip_cm(request.service_id):
        return None
    timers = (request.remote_cm_response_timeout, request.local_cm_response_timeout, request.max_cm_retries)
    return RDMA_CM if timers == UPSTREAM_TIMERS else OFED if timers == OFED_TIMERS else None


def _is_rdma_ip_cm(service_id: int | None) -> bool:
    return service_id is not None and service_id >> 24 == RDMA_IP_CM
