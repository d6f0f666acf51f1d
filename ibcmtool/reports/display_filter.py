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

_SEVERAL = -1


class DisplayFilters:
    """Makes the filters of the connections of one analysis."""

    def __init__(self, connections: Iterable[Connection] = ()) -> None:
        """`connections`: all that the filters have to tell apart; none where they are not known (a stream)."""
        self._owner: dict[int, int] = {}  # TID -> connection id
        for conn in connections:
            for tid in _tids(conn):
                if self._owner.setdefault(tid, conn.id) != conn.id:
                    self._owner[tid] = _SEVERAL

    def of(self, conn: Connection) -> str:
        """The filter of one connection; empty for a connection without messages."""
        tids = _tids(conn)
        if not tids:
            return ""
        messages = "infiniband.mad.mgmtclass == 0x07 && " + _any(
            "infiniband.mad.transactionid", map("0x{:016x}".format, tids)
        )
        if all(self._owner.get(tid, conn.id) == conn.id for tid in tids):
            return messages
        frames = {(step.message.file, step.message.frame) for step in conn.steps}
        frames |= {(sighting.file, sighting.frame) for step in conn.steps for sighting in step.sightings}
        return f"{messages} && " + _any(
            "frame.number", (str(number) for number in sorted({frame for _, frame in frames}))
        )


def _tids(conn: Connection) -> list[int]:
    return list(dict.fromkeys(step.message.tid for step in conn.steps))


def _any(name: str, values: Iterable[str]) -> str:
    terms = [f"{name} == {value}" for value in values]
    return terms[0] if len(terms) == 1 else f"({' || '.join(terms)})"
