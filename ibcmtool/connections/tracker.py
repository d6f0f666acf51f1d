"""The tracker: CM messages in, connections and events out.

Feed it messages in the order of their times (a little disorder is harmless), advance it when time passes without a
message, finish it at the end of the capture. Events are emitted one by one, as they happen: whoever gets them sees each
connection as it is at that moment. The tracker never raises on any message, and judges nothing: the rules do.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from ibcmtool.connections.agenda import Agenda
from ibcmtool.connections.codes import STALE_CONNECTION
from ibcmtool.connections.creation import EndpointNames
from ibcmtool.connections.data_watch import DataWatch
from ibcmtool.connections.deadlines import LINGER, Deadline, all_sent, is_over, leave_timewait, sends
from ibcmtool.connections.implementation import SHOWING, Implementations
from ibcmtool.connections.matching import earlier_sends, rej_reason
from ibcmtool.connections.outcomes import LETTERS, delayed, record_data, record_deadline, record_restart, record_step
from ibcmtool.connections.past import Past
from ibcmtool.connections.registry import Registry
from ibcmtool.connections.stale_duties import clear, duty, proved_stale
from ibcmtool.connections.timers import max_cm_retries
from ibcmtool.connections.timewait import timewait
from ibcmtool.connections.traces import DISORDER, Traces
from ibcmtool.connections.transition import transition
from ibcmtool.model import Connection, End, Event, Role, Sighting, Step, TimewaitModel
from ibcmtool.packets import CmMessage, DataPacket

FINAL: Final = frozenset({"ENDED", "STALE_DUTY"})  # deadlines that nothing undoes: forgotten, or said
# What is sent again until it is answered, and by whom; the sender's state is named after it.
RETRIED: Final[tuple[tuple[str, Role], ...]] = (
    ("REQ", "active"),
    ("REP", "passive"),
    ("DREQ", "active"),
    ("DREQ", "passive"),
)

Emit = Callable[[Event], object]
Covered = Callable[[Connection, int, int], bool]


class Tracker:
    """Replays CM messages into connections.

    `emit` is called with each event. `endpoint_names(service_id, private_data)` gives the names of both ends where a
    REQ's private data holds them. `timewait_model` says how long timewait lasts (timewait_models.py); auto goes by
    what is recognised of each CA. `traces` is fed with every message; others may read it. `most` is how many
    connections are remembered at once (None: any number); when there
    are more, the oldest end early and are counted in `evicted`. `covered` says whether what happened to a connection
    between two times was recorded (None: it was). `timeless`: times are not real, so no deadline passes.
    """

    def __init__(
        self,
        emit: Emit,
        endpoint_names: EndpointNames | None = None,
        timewait_model: TimewaitModel = "auto",
        *,
        traces: Traces | None = None,
        most: int | None = None,
        covered: Covered | None = None,
        timeless: bool = False,
    ) -> None:
        self.watched = DataWatch()  # QPNs whose data packets are worth feeding
        self._traces = Traces() if traces is None else traces
        self.evicted = 0
        self._emit = emit
        self._timewait_model = timewait_model
        self._implementations = Implementations()
        self._registry = Registry(endpoint_names, self._apply, self.watched.leave)
        self._live = self._registry.live
        self._most = most
        self._covered = covered
        self._timeless = timeless
        self._now = self._before = 0  # the newest time, and the one before it
        self._agenda = Agenda()
        self._queue, self._duties = self._agenda.queue, self._agenda.duties
        self._past = Past()

    @property
    def overruns(self) -> int:
        """Connections forgotten early because too many were over."""
        return self._past.overruns

    # -- in --------------------------------------------------------------------------------------------------------

    def feed(self, message: CmMessage) -> None:
        """One message; the events that its time and it itself bring."""
        time, kind = message.time, message.type
        if time >= self._queue.next:
            self._reach(time)
        elif time > self._now or self._now - time > DISORDER:  # the clock was set back: what is open waits
            self._now = time
        standing = self._traces.note(message)
        if standing == "restart":
            self._restart(message)
        match = self._registry.match(message)
        if match is None:
            return
        connection, sender = match
        first = None
        if LETTERS[sender][kind] in connection.history:
            first, copied = earlier_sends(connection, sender, message)
            if copied is not None:
                copied.sightings += (Sighting(message.file, message.frame, time),)
                self._emit(Event("SIGHTING", time, connection, copied))
                return
        if standing == "late" and (first is not None or connection.closed is not None) and self._is_delayed(message):
            self._emit(Event("DELAYED", time, connection, delayed(connection, sender, message, first)))
            return
        step = self._apply(connection, sender, message, first)
        if kind in SHOWING and connection.end(sender).ca_guid not in self._implementations.settled:
            self._implementations.see(connection, step)
        explained = self._registry.explained(connection, step) if kind == "DREQ" and self._registry.refusals else None
        self._emit(Event(kind, time, connection, step))
        if kind == "REJ":
            connection.crossing = self._registry.crossing(connection, step)
            self._mark_stale(connection, step)
        elif kind == "DREP" and connection.outcome == "stale":
            clear(connection, self._traces)
        elif kind == "DREQ" and connection.stale_by is not None and connection.steps[0] is step:
            self._emit(Event("STALE_DUTY", time, connection.stale_by, step, related=connection))
        elif kind == "DREQ" and (self._duties or explained is not None) and step.disposition != "ignored":
            for refused in self._duties.settle(connection) if explained is None else (explained,):
                self._emit(Event("STALE_DUTY", time, refused, step, related=connection))
        self.watched.adjust(connection)
        if self._queue.due(connection.id) > time + self._agenda.least_wait:
            self._agenda.note(connection, time)
        if connection.closed is not None and is_over(connection):
            oldest = self._past.make_room(connection, self._now)
            if oldest is not None:
                self._end(oldest, self._now)
        if self._most is not None and len(self._live) > self._most:
            self.evicted += 1
            self._end(next(iter(self._live.values())), self._now)

    def feed_data(self, packet: DataPacket) -> None:
        """One RC or UC packet to a watched QPN."""
        self._reach(packet.time)
        for connection, sender in self.watched.senders(packet):
            if record_data(connection, sender, packet):
                self._emit(Event("DATA", packet.time, connection, role=sender))
            self.watched.adjust(connection)

    def advance(self, time: int) -> None:
        """Let time pass that is known to have passed; it never goes back."""
        self._now = max(self._now, time)
        self._reach(self._now)

    def _reach(self, time: int) -> None:
        """It is this time, by a message, or by a clock."""
        self._before, self._now = self._now, max(self._now, time)
        if self._timeless:
            return
        for number, due in self._queue.reached(self._now):
            self._wake(self._live[number], due)

    def finish(self) -> None:
        """The end of the capture: what is still open ends as it stands, in the order of the connections."""
        for connection in list(self._live.values()):
            for refused in self._duties.settle(connection):
                self._emit(Event("STALE_DUTY", self._now, refused, related=connection))
        for connection in list(self._live.values()):
            # The last wait may reach beyond the capture: with every allowed send seen, no further one will come.
            for message_type, role in RETRIED:
                state = connection.end(role).state
                if state == f"{message_type}_SENT" and all_sent(connection, message_type, role):
                    self._pass(connection, Deadline(self._now, f"{message_type}_EXHAUSTED", role))
            leave_timewait(connection, self._now)
            self._name_implementations(connection)
            self._emit(Event("ENDED", self._now, connection))
        self._live.clear()
        self._queue.clear()

    # -- what does a message do? -----------------------------------------------------------------------------------

    def _apply(self, connection: Connection, sender: Role, message: CmMessage, first: Step | None = None) -> Step:
        """Make it a step of its connection. first: the step of which it is a repetition."""
        active, passive, time = connection.active, connection.passive, message.time
        if active.timewait is not None or passive.timewait is not None:
            leave_timewait(connection, time)
        active_after, passive_after, disposition = transition(connection, sender, message, first)
        step = Step(message, sender, disposition, first, active_after, passive_after)
        connection.steps.append(step)
        if active_after != active.state:
            active.state = active_after
            if active_after == "TIMEWAIT":
                self._begin_timewait(connection, active, time)
            elif active_after == "REQ_SENT":
                active.timewait = None  # refused as stale, it goes on with its REQ
        if passive_after != passive.state:
            passive.state = passive_after
            if passive_after == "TIMEWAIT":
                self._begin_timewait(connection, passive, time)
        if first is not None and message.type == "DREQ":
            self._wait_on(connection, connection.end(sender), time)
        record_step(connection, step)
        return step

    def _wait_on(self, connection: Connection, end: End, time: int) -> None:
        """A DREQ that comes again has had no answer: its sender's timewait begins no sooner than with this."""
        if end.timewait is not None and time - end.timewait.start > DISORDER:
            end.timewait = None
            self._begin_timewait(connection, end, time)

    def _is_delayed(self, message: CmMessage) -> bool:
        """Whether it came by more than the usual disorder behind one that its sender sent later."""
        return self._traces.delay(message) > DISORDER

    def _restart(self, message: CmMessage) -> None:
        """The port that sent it has restarted: it holds nothing of what was before, not even a timewait."""
        for connection in self._live.values():
            if record_restart(connection, message):
                self.watched.adjust(connection)
                if is_over(connection):
                    self._past.add(connection)

    def _begin_timewait(self, connection: Connection, end: End, time: int) -> None:
        if end.timewait is None:
            model = self._timewait_model
            if model == "auto":
                model = self._implementations.timewait_model(end.ca_guid)
            end.timewait = timewait(time, connection.request, connection.reply, end.role, model)

    def _mark_stale(self, connection: Connection, reject: Step) -> None:
        """What a REJ 10 proves, and what is owed after it."""
        proofs = list(proved_stale(connection, reject))
        if not proofs and reject.sender != "unknown" and rej_reason(reject.message) == STALE_CONNECTION:
            self._registry.refused_as_stale(connection, reject.message, reject.sender)
        for conflict in proofs:
            old = conflict.other
            old.stale_by = old.stale_by or connection
            old.outcome = "stale"
            old.end(conflict.owner).state = "IDLE"
            owed = duty(conflict, reject, connection)
            if owed is None:
                self._emit(Event("STALE_DUTY", reject.message.time, connection, related=old))
            else:
                self._duties.add(old, owed)
                self._queue.schedule(old.id, owed.deadline)

    # -- what does time do? ----------------------------------------------------------------------------------------

    def _wake(self, connection: Connection, now: int) -> None:
        """Let the deadlines of a connection pass that are due by now, and see when the next one is."""
        for deadline in sorted(self._agenda.pending(connection), key=lambda deadline: deadline.time):
            if deadline.time > now:
                break
            if deadline.kind in FINAL and self._now - LINGER > self._before and deadline.time > self._before:
                # Nothing was captured meanwhile, not even what was due: a clock that was set forward looks the same.
                self._queue.schedule(connection.id, self._now + deadline.time - self._before)
                return
            if deadline.kind == "ENDED":
                self._end(connection, deadline.time)
                return
            if deadline.kind == "STALE_DUTY":
                for refused in self._duties.overdue(connection, deadline.time):
                    self._emit(Event("STALE_DUTY", deadline.time, refused, related=connection))
            else:
                self._pass(connection, deadline)
        self._agenda.plan(connection)

    def _pass(self, connection: Connection, deadline: Deadline) -> None:
        """A deadline passes: what it decides, and its event."""
        if deadline.kind == "DREQ_LAPSED":
            self._agenda.passed(connection, deadline)
        elif deadline.role is not None:
            end = connection.end(deadline.role)
            if deadline.kind == "DREQ_EXHAUSTED":
                dreqs = sends(connection, "DREQ", deadline.role)
                once = len(dreqs) == 1 and max_cm_retries(connection.request) != 0
                end.state = "TIMEWAIT"
                # One that was never repeated was not waited for, or was answered out of sight.
                self._begin_timewait(connection, end, dreqs[0].message.time if once else deadline.time)
            else:
                end.state = "IDLE"
        last = connection.steps[-1].message.time
        in_sight = self._covered is None or self._covered(connection, last, deadline.time)
        record_deadline(connection, deadline, in_sight)
        self.watched.adjust(connection)
        if is_over(connection):
            self._past.add(connection)
        self._emit(Event(deadline.kind, deadline.time, connection, role=deadline.role))

    def _end(self, connection: Connection, time: int) -> None:
        leave_timewait(connection, time)
        self._name_implementations(connection)
        self._emit(Event("ENDED", time, connection))
        self._registry.remove(connection)
        self.watched.leave(connection)
        self._agenda.remove(connection)
        self._past.remove(connection)

    def _name_implementations(self, connection: Connection) -> None:
        """Write down, as its final word, whose CMs these are."""
        active, passive, whose = connection.active, connection.passive, self._implementations.of
        active.implementation, passive.implementation = whose(active.ca_guid), whose(passive.ca_guid)
