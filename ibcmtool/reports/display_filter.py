"""The Wireshark display filter that shows just the CM messages of one connection.

Built from the MAD's Transaction IDs, a field that Wireshark has for every message and has always called
`infiniband.mad.transactionid`; so the filter also serves on a capture of the other end. Wireshark's fields for comm
ids do not serve: MRA, SIDR, LAP and APR have none. Only operators that every version takes are used (the set
`in {...}` changed its separator).

Where another connection of the same analysis used the same TID (stacks that count them from 1), frame numbers narrow
it.
"""

from __future__ import annotations

from collections.abc import Iterable

from ibcmtool.model import Connection

_CM_CLASS = "infiniband.mad.mgmtclass == 0x07 && "
_TID = "infiniband.mad.transactionid == "
_FRAME = "frame.number == "


class DisplayFilters:
    """Makes the filters of the connections of one analysis, which it must tell apart by then."""

    def __init__(self, connections: Iterable[Connection] = ()) -> None:
        self._owners: dict[int, int] = {}  # TID -> id of the first connection with it
        self._shared: set[int] = set()  # TIDs of several connections
        for conn in connections:
            self.register(conn)

    def register(self, conn: Connection) -> None:
        """Make a connection known, so that the filters of others exclude its frames."""
        for tid in tids_of(conn):
            if self._owners.setdefault(tid, conn.id) != conn.id:
                self._shared.add(tid)

    def of(self, conn: Connection) -> str:
        """The filter of one connection; empty for a connection without messages."""
        tids = tids_of(conn)
        return self.text(tids, frames_of(conn) if self.is_shared(tids) else ())

    def is_shared(self, tids: Iterable[int]) -> bool:
        """Whether frame numbers are needed to tell a connection with these TIDs from another."""
        return not self._shared.isdisjoint(tids)

    def text(self, tids: Iterable[int], frames: Iterable[int] = ()) -> str:
        """The filter for these TIDs, narrowed to these frames if there are any."""
        messages = _any([f"{_TID}0x{tid:016x}" for tid in tids])
        if not messages:
            return ""
        narrowed = _any([f"{_FRAME}{number}" for number in frames])
        return f"{_CM_CLASS}{messages} && {narrowed}" if narrowed else _CM_CLASS + messages


def tids_of(conn: Connection) -> tuple[int, ...]:
    """The TransactionIDs of a connection, in the order of its messages."""
    return tuple({step.message.tid: None for step in conn.steps})


def frames_of(conn: Connection) -> list[int]:
    """The numbers of all frames that show a message of a connection."""
    frames = {step.message.frame for step in conn.steps}
    frames.update(sighting.frame for step in conn.steps for sighting in step.sightings)
    return sorted(frames)


def _any(terms: list[str]) -> str:
    return terms[0] if len(terms) == 1 else f"({' || '.join(terms)})" if terms else ""
