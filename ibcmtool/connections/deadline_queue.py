"""Which connection is to be looked at when: a heap with at most one valid entry for each connection."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from typing import Final

NEVER: Final = 1 << 63  # ns; later than any time


class DeadlineQueue:
    """Times (ns) by connection id. `next` is the earliest one, NEVER when there is none."""

    def __init__(self) -> None:
        self.next = NEVER
        self._heap: list[tuple[int, int]] = []  # (due, connection id)
        self._due: dict[int, int] = {}  # of each connection; other entries of the heap are void

    def due(self, number: int) -> int:
        """When this connection is to be looked at; NEVER: when something happens to it."""
        return self._due.get(number, NEVER)

    def schedule(self, number: int, due: int) -> None:
        """Look at this connection at `due`, or sooner if that is planned already."""
        if due < self._due.get(number, NEVER):
            self._due[number] = due
            heapq.heappush(self._heap, (due, number))
            self.next = self._heap[0][0]

    def reached(self, now: int) -> Iterator[tuple[int, int]]:
        """Connection id and due time of each that is due by `now`, in order; scheduling may go on meanwhile."""
        heap = self._heap
        while heap and heap[0][0] <= now:
            due, number = heapq.heappop(heap)
            if self._due.get(number) == due:
                del self._due[number]
                yield number, due
        self.next = heap[0][0] if heap else NEVER

    def remove(self, number: int) -> None:
        """This connection needs no look any more."""
        self._due.pop(number, None)

    def clear(self) -> None:
        """None needs one."""
        self._heap.clear()
        self._due.clear()
        self.next = NEVER
