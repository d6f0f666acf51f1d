"""Which packets did not get to their port, by the ICMP errors that came back. Bounded by a number of pairs of hosts."""

from __future__ import annotations

from collections.abc import Sequence

from ibcmtool.packets import Address, Undelivered

MOST_PAIRS, MOST_OF_A_PAIR = 1024, 64  # the newest


class UndeliveredPackets:
    """Fed in the order of the merged inputs."""

    def __init__(self) -> None:
        self._pairs: dict[tuple[Address, Address], list[Undelivered]] = {}

    def note(self, undelivered: Undelivered) -> None:
        """Remember it."""
        known = self._pairs.setdefault((undelivered.source, undelivered.destination), [])
        known.append(undelivered)
        del known[:-MOST_OF_A_PAIR]
        if len(self._pairs) > MOST_PAIRS:
            del self._pairs[next(iter(self._pairs))]

    def since(self, source: Address, destination: Address, time: int) -> Sequence[Undelivered]:
        """What came back since then (ns) of the packets from one host to another."""
        return [one for one in self._pairs.get((source, destination), ()) if one.time >= time]
