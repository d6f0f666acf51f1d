"""What ports were heard to say: the newest message of each, its versions of RoCE, who an input is about.

"Words" are the first messages of each end of a connection: enough to know who speaks, at a fraction of all messages.
Bounded by the number of ports and inputs.
"""

from __future__ import annotations

from operator import attrgetter

from ibcmtool.packets import Address, CmMessage, Transport
from ibcmtool.wire.envelope import envelope


class Ports:
    """Fed with words, in the order of the merged inputs."""

    def __init__(self) -> None:
        self.heard: dict[Address, dict[int, CmMessage]] = {}  # newest word by sender and input
        self.shared: dict[int, tuple[Address, ...]] = {}  # by input: who all words are from or to
        self.addressed: set[Address] = set()  # who a word went to
        self._versions: dict[tuple[Transport, bytes], CmMessage] = {}

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
        self.addressed.add(message.destination)
        shared = self.shared.get(file)
        if shared is None:
            self.shared[file] = source, message.destination
        elif shared:
            ends = source, message.destination
            if not (shared[0] in ends and (len(shared) == 1 or shared[1] in ends)):
                self.shared[file] = tuple(address for address in shared if address in ends)

    def newest(self, address: Address) -> CmMessage | None:
        """The newest word from an address, in whichever input."""
        return max(self.heard.get(address, {}).values(), key=attrgetter("time"), default=None)

    def words(self, message: CmMessage) -> list[CmMessage]:
        """The first word known of the port that a message goes to, and its newest in the same input."""
        first = self.with_version(message.transport, message.destination.gid)
        newest = self.heard.get(message.destination, {}).get(message.file)
        return [word for word in (first, newest) if word is not None]

    def with_version(self, transport: Transport, *names: bytes | None) -> CmMessage | None:
        """The first word heard with this version of RoCE from a host of one of these GIDs or MAC addresses."""
        found = (self._versions.get((transport, name)) for name in names if name is not None)
        return next(filter(None, found), None)

    def _introduce(self, message: CmMessage) -> None:
        """The first word of a sender in an input and a version of RoCE."""
        around = envelope(message)
        for key in (message.source.gid, around and around.source_mac):
            if key is not None:
                self._versions.setdefault((message.transport, key), message)
