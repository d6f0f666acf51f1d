"""What a rule may look at besides the event itself."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any

from ibcmtool.model import Address, CmMessage, Connection, Neighbour, Policy, Transport
from ibcmtool.rules.facts.coverage import Coverage
from ibcmtool.wire.envelope import envelope
from ibcmtool.wire.neighbours import Neighbourhood, shown


@dataclass(slots=True)
class View:
    """The chosen policy, what the capture covers, and a rule's own memory between events.

    `memory` is keyed by rule code first. It never grows with the number of connections: what a rule keeps there is
    bounded by the number of CAs (T08, T10), of their ports (X03), of pairs of ports and of inputs (C05) or of inputs
    (X05), or by a constant, the newest staying (X02, S09, R07). A connection that is kept (X02, T10) stays in memory
    when the tracker has forgotten it.

    "Words" are the first messages of each end of a connection.
    """

    policy: Policy = "relaxed"
    start: int = 0  # time of the first CM message
    longest: int = 0  # ns that a connection lasted that has ended
    heard: dict[Address, dict[int, CmMessage]] = field(default_factory=dict)  # newest word by sender and input
    versions: dict[tuple[Transport, bytes], CmMessage] = field(default_factory=dict)  # see `version_heard`
    shared: dict[int, tuple[Address, ...]] = field(default_factory=dict)  # by input: who all words are from or to
    neighbourhood: Neighbourhood = field(default_factory=Neighbourhood)
    coverage: Coverage = field(default_factory=Coverage)  # of several inputs; of one it says yes to everything
    memory: defaultdict[str, dict[Hashable, Any]] = field(default_factory=lambda: defaultdict(dict))

    def watched(self, connection: Connection, start: int, end: int) -> int:
        """How long (ns) from `start` on, at most until `end`, inputs that show this connection had no hole.

        Silence proves nothing beyond that: a rule that concludes from it counts this time, not what went by.
        """
        return self.coverage.watched((connection.active.address, connection.passive.address), start, end)

    def covered(self, connection: Connection, start: int, end: int) -> bool:
        """Whether inputs that show this connection were recording all the time from `start` to `end`."""
        return self.watched(connection, start, end) == end - start

    def hear(self, message: CmMessage) -> None:
        """A word."""
        file, source = message.file, message.source
        words = self.heard.get(source)
        if words is None:
            words = self.heard[source] = {}
        known = words.get(file)
        if known is None or known.transport != message.transport:
            self._introduce(message)
        words[file] = message
        shared = self.shared.get(file)
        if shared is None:
            self.shared[file] = source, message.destination
        elif shared:
            ends = source, message.destination
            if not (shared[0] in ends and (len(shared) == 1 or shared[1] in ends)):
                self.shared[file] = tuple(address for address in shared if address in ends)

    def _introduce(self, message: CmMessage) -> None:
        """The first word of a sender in an input and a version of RoCE."""
        around = envelope(message)
        for key in (message.source.gid, around and around.source_mac):
            if key is not None:
                self.versions.setdefault((message.transport, key), message)

    def learn(self, told: Neighbour) -> None:
        """A station announced an address. Whom the address was heard from until then is worth knowing now."""
        word = self.newest_word(told.address)
        seen = shown(word) if word is not None else None
        if seen is not None:
            self.neighbourhood.note(seen)
        self.neighbourhood.note(told)

    def newest_word(self, address: Address) -> CmMessage | None:
        """The newest word from an address, in whichever input."""
        return max(self.heard.get(address, {}).values(), key=attrgetter("time"), default=None)

    def version_heard(self, transport: Transport, *names: bytes | None) -> CmMessage | None:
        """The first word heard with this version of RoCE from a host of one of these GIDs or MAC addresses."""
        found = (self.versions.get((transport, name)) for name in names if name is not None)
        return next(filter(None, found), None)
