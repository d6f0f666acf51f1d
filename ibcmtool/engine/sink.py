"""Who gets the records of an engine, and in which order."""

from __future__ import annotations

from typing import NamedTuple

from mypy_extensions import mypyc_attr

from ibcmtool.analysis import Finding, InputInfo
from ibcmtool.model import Connection, Event
from ibcmtool.packets import CmMessage, DataPacket, Frame


class Received(NamedTuple):
    """One message or data packet, with the frame that it was decoded from."""

    number: int  # the frame number that findings name
    frame: Frame  # as its source delivered it; redacted where that was asked for
    item: CmMessage | DataPacket


@mypyc_attr(allow_interpreted_subclasses=True)
class Sink:
    """Gets what was received, then its events, each with its findings and with the connection that it ended.

    What concerns whole inputs comes at the end. Nothing is kept here; subclasses take what they want.
    """

    follows = True  # whether `received` and `event` are to be called, not only what came of them

    def received(self, received: Received) -> None:
        """A message or data packet was captured."""

    def event(self, event: Event) -> None:
        """Something happened to a connection."""

    def finding(self, finding: Finding, event: Event | None) -> None:
        """The event, or (None) the whole capture, showed this."""

    def connection(self, connection: Connection) -> None:
        """It has ended."""

    def input(self, info: InputInfo) -> None:
        """All that came from one input; the last of all, when the analysis ends."""
