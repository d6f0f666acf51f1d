"""What was sent and may be sent again: ib_mad repeats requests by itself, and its tracepoint tells the header only."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

from ibcmtool.sources.live.kernel.addresses import Pair
from ibcmtool.wire.header_readers import read_request_key

MOST = 20_000  # MADs remembered
REPEATED = frozenset({0x10, 0x13, 0x15, 0x17, 0x19})  # REQ, REP, DREQ, SIDR_REQ, LAP: those that want an answer


@dataclass(slots=True)
class Posted:
    """A MAD that was handed to ib_mad."""

    mad: bytes
    pair: Pair
    process: str
    unattempted: int = 1  # how often it was posted without an attempt to send it


class Retries:
    """The MADs that were posted last, by TransactionID and attribute."""

    def __init__(self) -> None:
        self._posted: OrderedDict[tuple[int, int], Posted] = OrderedDict()
        self.unknown = 0  # sent again, but posted before we looked

    def post(self, mad: bytes, pair: Pair, process: str) -> None:
        key = read_request_key(mad, 0)
        if key[1] not in REPEATED:
            return
        known = self._posted.pop(key, None)
        unattempted = known.unattempted + 1 if known is not None and known.mad == mad else 1
        self._posted[key] = Posted(mad, pair, process, unattempted)
        if len(self._posted) > MOST:
            self._posted.popitem(last=False)

    def attempt(self, tid: int, attribute: int) -> Posted | None:
        """The MAD that is sent again, if this is not the first time that it is sent."""
        posted = self._posted.get((tid, attribute))
        if posted is None:
            self.unknown += attribute in REPEATED
            return None
        if posted.unattempted:
            posted.unattempted -= 1
            return None
        return posted
