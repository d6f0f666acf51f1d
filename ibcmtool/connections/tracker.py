"""The tracker: CM messages in, connections and events out.

Feed it messages in the order of their times (a little disorder is harmless), advance it when time passes without a
message, finish it at the end of the capture. Events are emitted one by one, as they happen: whoever gets them sees each
connection as it is at that moment. The tracker never raises on any message, and judges nothing: the rules do.
"""

from __future__ import annotations

import heapq
from collections import OrderedDict
from collections.abc import Callable, Iterator

from ibcmtool.connections.codes import STALE_CONNECTION
from ibcmtool.connections.connection_index import CLOSED_STATES
from ibcmtool.connections.creation import EndpointNames
from ibcmtool.connections.data_watch import DataWatch
from ibcmtool.connections.deadlines import (
    LINGER,
    Deadline,
    all_sent,
    deadlines,
    forgettable,
    is_over,
    least_wait,
    leave_timewait,
)
from ibcmtool.connections.implementation import TELLING, Implementations
from ibcmtool.connections.matching import ADDRESSED, VARIANTS, is_copy, misaddressed, variant
from ibcmtool.connections.outcomes import LETTERS, note, note_data, note_deadline
from ibcmtool.connections.registry import Registry
from ibcmtool.connections.tables import JOINT
from ibcmtool.connections.timers import DUTY_WAITS, exponent, response_wait
from ibcmtool.connections.timewait import timewait
from ibcmtool.model import (
    PEER,
    CmMessage,
    Connection,
    DataPacket,
    Disposition,
    End,
    Event,
    Role,
    Sighting,
    Step,
    TimewaitModel,
)

REQUESTS = frozenset({"REQ", "SIDR_REQ"})
ANSWERS = frozenset({"MRA", "REJ", "REP", "RTU", "DREQ", "DREP", "LAP", "APR", "SIDR_REP"})

# What is sent again until it is answered, and by whom; the sender's state is named after it.
RETRIED: tuple[tuple[str, Role], ...] = (("REQ", "active"), ("REP", "passive"), ("DREQ", "active"), ("DREQ", "passive"))

LONGEST_EXPONENT = 31
NEVER = float("inf")

new = tuple.__new__  # Event(...) takes twice as long

# Connections that are over and still kept for late repetitions and for the rules on reuse: some thousands a second for
# as long as timewait lasts, and a bound for the memory that a storm of short connections takes.
MOST_OVER = 8192

Emit = Callable[[Event], object]
Covered = Callable[[Connection, int, int], bool]


class Tracker:
    """Replays CM messages into connections.

    `emit` is called with each event. `endpoint_names(service_id, private_data)` gives the names of both ends where a
    REQ's private data holds them. `timewait_model` says how long timewait lasts (timewait_models.py); auto goes by
    what is recognised of each CA.
    `watched` is the set of QPNs whose data packets are worth feeding. `most` is how many connections are remembered at
    once (None: any number); the oldest are told as ended when there are more, and counted in `evicted`. `covered` tells
    whether what happened to a connection between two times was recorded (None: it was).
    """

    def __init__(
        self,
        emit: Emit,
        endpoint_names: EndpointNames | None = None,
        timewait_model: TimewaitModel = "auto",
        *,
        most: int | None = None,
        covered: Covered | None = None,
    ) -> None:
        self._emit = emit
        self._timewait_model = timewait_model
        self._implementations = Implementations()
        self._settled = self._implementations.settled
        self._data_watch = DataWatch()
        self._registry = Registry(endpoint_names, self._apply, self._data_watch.leave)
        self._live = self._registry.live
        self._most = most
        self._covered = covered
        self.evicted = 0
        self._now = 0
        self._heap: list[tuple[int, int]] = []  # (due, connection id)
        self._next = NEVER  # the first due of the heap
        self._due: dict[int, int] = {}  # what the heap's valid entry of a connection is
        # Both ends have let go; in the order in which they did. (The first of a plain dict is slow to find.)
        self._over: OrderedDict[int, Connection] = OrderedDict()
        self.overruns = 0  # connections forgotten early because more than MOST_OVER were over
        self._least_wait = exponent(
            LONGEST_EXPONENT
        )  # of all connections so far: no deadline comes sooner after a step
        self._reached: dict[int, set[Deadline]] = {}  # deadlines already told
        self._duties: dict[int, list[tuple[int, Connection]]] = {}  # stale connection -> (deadline, refused attempt)

    @property
    def watched(self) -> DataWatch:
        return self._data_watch

    # -- in --------------------------------------------------------------------------------------------------------

    def feed(self, message: CmMessage) -> None:
        """One message; the events that its time and it itself bring."""
        time, kind = message.time, message.type
        if time >= self._next:
            self.advance(time)
        elif time > self._now:
            self._now = time
        if kind in ANSWERS:
            match = self._registry.answer(message)
        elif kind in REQUESTS:
            match = self._registry.request(message)
        else:  # no part of a connection: ClassPortInfo, SAP and SPR (layout unknown), attributes unknown
            return
        if match is None:
            return
        connection, sender = match
        first = None
        if LETTERS[sender][kind] in connection.history:
            for step in connection.steps:
                earlier = step.message
                if earlier.mad == message.mad and step.sender == sender:
                    if is_copy(earlier, message):
                        step.sightings += (Sighting(message.file, message.frame, time),)
                        self._emit(Event("SIGHTING", time, connection, step))
                        return
                    first = first or step
        step = self._apply(connection, sender, message, first)
        if kind in TELLING and connection.end(sender).ca_guid not in self._settled:
            self._implementations.see(connection, step)
        self._emit(new(Event, (kind, time, connection, step, None, None)))
        if kind == "REJ":
            self._stale(connection, step)
        elif kind == "DREQ" and self._duties:
            self._duty_done(connection, step)
        self._data_watch.attend(connection)
        due = self._due.get(connection.id)
        if due is None or due > time + self._least_wait:
            # What this step sets comes no sooner than this; looking closer can wait until then.
            wait = least_wait(connection)
            self._least_wait = min(self._least_wait, wait)
            self._schedule(connection, time + wait)
        if connection.closed is not None and is_over(connection):
            self._make_room(connection)
        if self._most is not None and len(self._live) > self._most:
            self.evicted += 1
            self._end(next(iter(self._live.values())), self._now)

    def feed_data(self, packet: DataPacket) -> None:
        """One RC or UC packet to a watched QPN."""
        self.advance(packet.time)
        for connection, sender in self._data_watch.senders(packet):
            if note_data(connection, sender, packet):
                self._emit(Event("DATA", packet.time, connection, role=sender))
            self._data_watch.attend(connection)

    def advance(self, time: int) -> None:
        """Let the capture's time pass; it never goes back."""
        self._now = max(self._now, time)
        while self._heap and self._heap[0][0] <= self._now:
            due, number = heapq.heappop(self._heap)
            if self._due.get(number) == due:
                del self._due[number]
                self._wake(self._live[number], due)
        self._next = self._heap[0][0] if self._heap else NEVER

    def finish(self) -> None:
        """The end of the capture: what is still open is told as it stands, in the order of the connections."""
        for connection in list(self._live.values()):
            for _, refused in self._duties.pop(connection.id, ()):
                self._emit(Event("STALE_DUTY", self._now, refused, related=connection))
        for connection in list(self._live.values()):
            # The last wait may reach beyond the capture: with every allowed send seen, no further one will come.
            for message_type, role in RETRIED:
                state = connection.end(role).state
                if state == f"{message_type}_SENT" and all_sent(connection, message_type, role):
                    self._reach(connection, Deadline(self._now, f"{message_type}_EXHAUSTED", role))
            leave_timewait(connection, self._now)
            self._name_implementations(connection)
            self._emit(Event("ENDED", self._now, connection))
        self._live.clear()
        self._heap.clear()
        self._next = NEVER

    # -- what does it do? ------------------------------------------------------------------------------------------

    def _apply(self, connection: Connection, sender: Role, message: CmMessage, first: Step | None = None) -> Step:
        active, passive, time, kind = connection.active, connection.passive, message.time, message.type
        if active.timewait is not None or passive.timewait is not None:
            leave_timewait(connection, time)
        active_before, passive_before = active.state, passive.state
        name = kind if kind not in VARIANTS else variant(message)
        disposition: Disposition
        try:
            active_after, passive_after, disposition = JOINT[active_before, passive_before, sender, name]
        except KeyError:
            active_after, passive_after, disposition = active_before, passive_before, "unexpected"
        if kind in ADDRESSED and misaddressed(connection, sender, message):
            # The receiver does not take it for this connection; both stay where they were.
            active_after, passive_after, disposition = active_before, passive_before, "ignored"
        elif kind == "REQ" and connection.steps and connection.steps[0].message.type != "REQ":
            # Captured behind its own answer: it tells what was missing, not that the REP was lost.
            active_after, passive_after = active_before, passive_before
        elif first is not None and disposition != "unexpected":
            unmoved = passive_after == passive_before if sender == "active" else active_after == active_before
            if unmoved:
                disposition = "duplicate"
        step = Step(message, sender, disposition, first, active_after, passive_after)
        connection.steps.append(step)
        if active_after != active_before:
            active.state = active_after
            if active_after == "TIMEWAIT":
                self._begin_timewait(connection, active, time)
        if passive_after != passive_before:
            passive.state = passive_after
            if passive_after == "TIMEWAIT":
                self._begin_timewait(connection, passive, time)
        note(connection, step)
        return step

    def _begin_timewait(self, connection: Connection, end: End, time: int) -> None:
        if end.timewait is None:
            model = self._timewait_model
            if model == "auto":
                model = self._implementations.timewait_model(end.ca_guid)
            end.timewait = timewait(time, connection.request, connection.reply, end.role, model)

    def _stale(self, connection: Connection, step: Step) -> None:
        """A REJ 10 against a QPN that the rejecting CA still holds: the earlier connection is dead at its owner."""
        fields = step.message.fields
        if fields.reason != STALE_CONNECTION:
            return
        conflicts = connection.request_conflicts if step.sender == "passive" else connection.reply_conflicts
        for conflict in conflicts:
            old, holder = conflict.other, PEER[conflict.owner]
            if not conflict.same_peer or conflict.peer_state in CLOSED_STATES:
                continue
            old.stale_by = old.stale_by or connection
            old.outcome = "stale"
            old.end(conflict.owner).state = "IDLE"
            if conflict.peer_state == "ESTABLISHED" and old.end(holder).state == "ESTABLISHED":
                deadline = step.message.time + DUTY_WAITS * response_wait(old.request, holder).nominal
                self._duties.setdefault(old.id, []).append((deadline, connection))
                self._schedule(old, deadline)
            else:  # no DREQ is owed: not established there, or its DREQ is under way already
                self._emit(Event("STALE_DUTY", step.message.time, connection, related=old))

    def _duty_done(self, connection: Connection, step: Step) -> None:
        if step.disposition != "ignored":
            for _, refused in self._duties.pop(connection.id, ()):
                self._emit(Event("STALE_DUTY", step.message.time, refused, step, related=connection))

    # -- what deadlines? ----------------------------------------------------------------------------------------------

    def _schedule(self, connection: Connection, due: int) -> None:
        """Look at this connection again at `due`, or sooner if that is planned already."""
        known = self._due.get(connection.id)
        if known is None or due < known:
            self._due[connection.id] = due
            heapq.heappush(self._heap, (due, connection.id))
            self._next = self._heap[0][0]

    def _pending(self, connection: Connection) -> Iterator[Deadline]:
        told = self._reached.get(connection.id, ())
        yield from (lapse for lapse in deadlines(connection) if lapse not in told)
        for deadline, _ in self._duties.get(connection.id, ()):
            yield Deadline(deadline, "STALE_DUTY")

    def _wake(self, connection: Connection, now: int) -> None:
        for lapse in sorted(self._pending(connection), key=lambda lapse: lapse.time):
            if lapse.time > now:
                break
            if lapse.kind == "ENDED":
                self._end(connection, lapse.time)
                return
            self._reach(connection, lapse)
        due = min((lapse.time for lapse in self._pending(connection)), default=None)
        if due is not None:  # a quiet connection with nothing due is left alone until its next message
            self._schedule(connection, due)

    def _reach(self, connection: Connection, lapse: Deadline) -> None:
        if lapse.kind == "STALE_DUTY":
            over = [refused for deadline, refused in self._duties[connection.id] if deadline <= lapse.time]
            self._duties[connection.id] = [d for d in self._duties[connection.id] if d[0] > lapse.time]
            for refused in over:
                self._emit(Event("STALE_DUTY", lapse.time, refused, related=connection))
            return
        if lapse.kind == "DREQ_LAPSED":
            self._reached.setdefault(connection.id, set()).add(lapse)
        elif lapse.role is not None:
            end = connection.end(lapse.role)
            if lapse.kind == "DREQ_EXHAUSTED":
                end.state = "TIMEWAIT"
                self._begin_timewait(connection, end, lapse.time)
            else:
                end.state = "IDLE"
        in_sight = self._covered is None or self._covered(connection, connection.steps[-1].message.time, lapse.time)
        note_deadline(connection, lapse, in_sight)
        self._data_watch.attend(connection)
        if is_over(connection):
            self._over[connection.id] = connection
        self._emit(Event(lapse.kind, lapse.time, connection, role=lapse.role))

    def _make_room(self, connection: Connection) -> None:
        """Connections that are over wait for late repetitions, but only so many of them."""
        over = self._over
        over[connection.id] = connection
        over.move_to_end(connection.id)
        if len(over) > MOST_OVER:
            oldest = next(iter(over.values()))
            if is_over(oldest):
                self.overruns += self._now - (oldest.closed or 0) < LINGER or self._now < forgettable(oldest)
                self._end(oldest, self._now)
            else:  # it came to life again
                del over[oldest.id]

    def _end(self, connection: Connection, time: int) -> None:
        leave_timewait(connection, time)
        self._name_implementations(connection)
        self._emit(new(Event, ("ENDED", time, connection, None, None, None)))
        self._registry.remove(connection)
        self._data_watch.leave(connection)
        number = connection.id
        self._due.pop(number, None)
        self._over.pop(number, None)
        if number in self._reached:
            del self._reached[number]
        if number in self._duties:
            del self._duties[number]

    def _name_implementations(self, connection: Connection) -> None:
        """Write down, as its final word, whose CMs these are."""
        active, passive, whose = connection.active, connection.passive, self._implementations.of
        active.implementation, passive.implementation = whose(active.ca_guid), whose(passive.ca_guid)
