"""What a rule may look at besides what it is shown: the policy, what is known of hosts and captures, its own notes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterator, Sequence
from typing import Any

from ibcmtool.analysis import Policy
from ibcmtool.connections.traces import Traces
from ibcmtool.evidence import Ground, proved, unopposed
from ibcmtool.evidence.witness import Witness
from ibcmtool.formatting import frames
from ibcmtool.model import Connection, Event, Step
from ibcmtool.packets import CmMessage, DataPacket, Neighbour
from ibcmtool.rules.facts.comm_ids import CommIds
from ibcmtool.rules.facts.completeness import Completeness
from ibcmtool.rules.facts.coverage import Coverage
from ibcmtool.rules.facts.lags import Lags
from ibcmtool.rules.facts.ports import Ports
from ibcmtool.rules.facts.refusals import Refusals
from ibcmtool.rules.facts.restarts import Restarts
from ibcmtool.rules.facts.undelivered import UndeliveredPackets
from ibcmtool.wire.neighbours import Neighbourhood, shown


class Context:
    """The facts, fed once each by the judge, and the rules' own memory.

    `memory` is keyed by rule code; a rule reads only its own. It never grows with the number of connections: what a
    rule keeps there is bounded by the number of CAs (T08, T10, F16), or by a constant, the newest staying (S09, R11,
    R12, C06). A connection that is kept (T10) stays in memory when the tracker has forgotten it.
    """

    def __init__(
        self, policy: Policy = "relaxed", coverage: Coverage | None = None, traces: Traces | None = None
    ) -> None:
        self.policy: Policy = policy
        self.coverage = coverage or Coverage()  # of several inputs; of one it says yes to everything
        self.traces = traces or Traces()
        self.witness = Witness(self.traces, several_files=self.coverage.several)
        self.ports = Ports()
        self.restarts = Restarts(self.traces)
        self.refusals = Refusals()
        self.lags = Lags(self.coverage)
        self.comm_ids = CommIds()
        self.completeness = Completeness()
        self.neighbourhood = Neighbourhood()
        self.undelivered = UndeliveredPackets()
        self.start = 0  # time of the first CM message
        self.memory: defaultdict[str, dict[Hashable, Any]] = defaultdict(dict)

    # -- what is fed -----------------------------------------------------------------------------------------------

    def step(self, connection: Connection, step: Step, *, word: bool) -> Sequence[str]:
        """A message that became a step. word: it is the first of its sender in this connection.

        The kinds of events that it shows.
        """
        if word:
            self.start = self.start or step.message.time
            self.ports.hear(step.message)
        # Behind a proxy (X11) the port's QP1 is another one.
        if step.message.type in ("REQ", "REP") and connection.proxied_copy_of is None:
            return self.restarts.note(step)
        if step.message.type == "RTU":
            self.comm_ids.note(connection, step)
        return ()

    def sighting(self, step: Step) -> None:
        """A packet that became a step was captured once more."""
        if self.coverage.several:
            self.lags.note(step)

    def ended(self, event: Event) -> None:
        """Nothing more is expected of a connection."""
        self.completeness.ended(event.connection, self.start)

    def neighbour(self, neighbour: Neighbour) -> None:
        """A station announced an address. Whom the address was heard from until then is worth knowing now."""
        word = self.ports.newest(neighbour.address)
        seen = shown(word) if word is not None else None
        if seen is not None:
            self.neighbourhood.note(seen)
        self.neighbourhood.note(neighbour)

    # -- what is said ----------------------------------------------------------------------------------------------

    def frame(self, *packets: CmMessage | DataPacket | Neighbour) -> str:
        """ "frame 6"; where there are several inputs "frame 2:6", as the reports name it."""
        return frames([(packet.file, packet.frame) for packet in packets], self.coverage.several)

    # -- what is asked ---------------------------------------------------------------------------------------------

    def watched(self, connection: Connection, start: int, end: int) -> int:
        """How long (ns) from `start` on, at most until `end`, inputs that show this connection had no hole.

        Silence proves nothing beyond that: a rule that concludes from it counts this time, not what went by.
        """
        return self.coverage.watched((connection.active.address, connection.passive.address), start, end)

    def one_clock(self, one: Step, other: Step) -> Ground:
        """One clock stamped both: that of their place, which other inputs may yet show to have been set."""
        if not self.coverage.several:
            return proved("order")
        if self._seen_at(one).isdisjoint(self._seen_at(other)):
            return Ground("order", "weakened", "their times are of two captures, none of which has both")
        return unopposed("order")

    def no_answer_in_sight(self, question: Step, until: int, *, heard: bool) -> Iterator[Ground]:
        """What weakens that a question had no answer: no place that has captured it recorded until then (ns).

        heard: the peer was; then only a place counts that shows messages from it to the one who asks.
        """
        asked = question.message
        back = (asked.destination, asked.source)
        if self.coverage.several and not any(
            self.coverage.place_covers(place, asked.time, until) and (not heard or self.coverage.packets(place, back))
            for place in self._seen_at(question)
        ):
            yield Ground("complete", "weakened", f"no input that shows the last {asked.type} would show its answer")

    def _seen_at(self, step: Step) -> set[int]:
        """The places (Coverage.places) that have captured it."""
        places = self.coverage.places()
        return {places[file] for file in (step.message.file, *(copy.file for copy in step.sightings))}

    def covered(self, connection: Connection, start: int, end: int) -> bool:
        """Whether inputs that show this connection were recording all the time from `start` to `end`."""
        return self.watched(connection, start, end) == end - start
