"""What a live source is: what it does while it runs, and what is declared of it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Container, Sequence
from threading import Event
from typing import NamedTuple

from ibcmtool.packets import Frame
from ibcmtool.sources.errors import SourceError

Deliver = Callable[[Sequence[Frame]], None]
"""Takes packets as they arrive. Their numbers do not count: whoever takes them numbers what it keeps.

With none it returns when all that came before has been looked at: then `watched` is up to date.
"""


class LiveSource(ABC):
    """A source of live packets. `open`, then `run` in a thread, then `close`."""

    silence = ""  # what to look at when nothing arrives, one line
    made_up = False  # its packets are built around bare MADs: their PSN and ICRC say nothing
    sees_host = False  # it misses no CM message that its host sends or receives, but for those that it counts
    speed = 1.0  # seconds of capture time that pass in a second

    def __init__(self, name: str) -> None:
        self.name = name  # as the user named it
        self.dropped = 0  # packets lost so far, as far as the source knows
        self.end_time: int | None = None  # of its last packet, worth delivering or not, once it has ended
        self.damaged = False  # what came could not be read to its end
        self.notes: list[str] = []  # what happened that the user must know; only ever grows

    @abstractmethod
    def open(self) -> None:
        """Begin. Raises SourceError where this host does not offer it: why, and what to do instead."""

    @abstractmethod
    def run(self, deliver: Deliver, stop: Event, watched: Container[int]) -> None:
        """Deliver packets until the source ends or `stop` is set, which it notices within half a second.

        watched: QPNs whose data packets are worth delivering, where the source sees such. SourceError as for `open`.
        """

    def close(self) -> None:  # noqa: B027 (some keep nothing open)
        """Let go of everything; called once, also when `open` or `run` failed half way."""

    def refusal(self, problem: str, hint: str = "") -> SourceError:
        """The error that this source cannot be had, or not any more."""
        return SourceError(self.name, problem, hint)

    def note(self, text: str) -> None:
        """Something happened that the user must know."""
        self.notes.append(f"{self.name}: {text}")


class Offer(NamedTuple):
    """Whether a source would work on this host."""

    source: str
    available: bool
    reason: str  # what it shows, or why it is not to be had
    command: str  # what to type; where it is not available, what to do about it ("" where nothing helps)


class SourceKind(NamedTuple):
    """One kind of live source. Nothing of it is loaded before it is used: to be listed, it costs next to nothing."""

    made_by: str  # module and class: takes all that the user wrote, and what of it stands behind the colon
    sees: str  # one line of Markdown
    needs: str = ""  # privileges, modules
    offer: Offer | None = None  # of every host; else `offers` in offers.py beside the module tells
    extcap: bool = True  # Wireshark can start it
