"""Where frames come from while they happen: the kernel, umad, an interface, a stream, a growing or a replayed capture.

All of them are one thing to the rest of the program: a `LiveSource`. It is opened (or refused, with the reason and what
to do instead), runs in a thread of its own, delivers what arrives in batches, and is closed.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from importlib import import_module
from threading import Event
from typing import Protocol

from ibcmtool.model import Frame
from ibcmtool.sources.errors import SourceError

# What stands before the colon, and the module that has the class; each takes what stands behind the colon.
SOURCES = {
    "kernel": ("kernel", "KernelSource"),
    "umad": ("umad", "UmadSource"),
    "iface": ("interface", "InterfaceSource"),
    "-": ("captured", "StandardInput"),
    "follow": ("captured", "GrowingFile"),
    "replay": ("captured", "Replay"),
}
USAGE = "kernel, umad[:DEV[:PORT]], iface:NAME, - (a capture on standard input), follow:FILE or replay:FILE[@SPEED]"


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


def source_of(text: str) -> LiveSource:
    """The source that a user names. Raises SourceError for a name that is none."""
    kind, colon, rest = text.partition(":")
    if kind not in SOURCES or (kind == "-" and colon):
        raise SourceError(text, "is no live source", f"name one of {USAGE}")
    module, cls = SOURCES[kind]
    source: LiveSource = getattr(import_module(f"ibcmtool.sources.live.{module}"), cls)(text, rest)
    return source
