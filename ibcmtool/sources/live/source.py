"""What a live source is: what it declares of itself, and what it does while it runs."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Sequence
from threading import Event
from typing import NamedTuple, Protocol

from ibcmtool.model import Frame
from ibcmtool.sources.live.host import Host

Deliver = Callable[[Sequence[Frame]], None]
"""Takes packets as they arrive. Their numbers do not count: whoever takes them numbers what it keeps."""


class LiveSource(Protocol):
    """A source of live packets. `open`, then `run` in a thread, then `close`."""

    name: str  # as the user named it
    silence: str  # what to look at when nothing arrives, one line
    made_up: bool  # its packets are built around bare MADs: their PSN and ICRC say nothing
    speed: float  # seconds of capture time that pass in a second
    dropped: int  # packets lost so far, as far as the source knows
    damaged: bool  # what came could not be read to its end
    notes: list[str]  # what happened that the user must know: a file replaced, a stream damaged; only ever grows

    def open(self) -> None:
        """Begin. Raises SourceError where this host does not offer it: why, and what to do instead."""

    def run(self, deliver: Deliver, stop: Event, watched: Container[int]) -> None:
        """Deliver packets until the source ends or `stop` is set, which it notices within half a second.

        watched: QPNs whose data packets are worth delivering, where the source sees such. SourceError as for `open`.
        """

    def close(self) -> None:
        """Let go of everything; called once, also when `open` or `run` failed half way."""


class Offer(NamedTuple):
    """Whether a source would work on this host."""

    source: str
    available: bool
    reason: str  # what it shows, or why it is not to be had
    command: str  # what to type; where it is not available, what to do about it ("" where nothing helps)


class SourceKind(NamedTuple):
    """One kind of live source, as its package declares it; how a user names it stands in the list of all of them.

    The functions load what they need when they are called: to be listed, a source costs next to nothing.
    """

    sees: str  # one line of Markdown
    needs: str  # privileges, modules; "" for nothing
    create: Callable[[str, str], LiveSource]  # from all that the user wrote, and what of it stands behind the colon
    offers: Callable[[Host], Iterator[Offer]]  # one or more, without opening anything that could be seen elsewhere
    extcap: bool = True  # Wireshark can start it
