"""What is going to happen, in the order of time."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import Any


class Plan:
    """Actions, each with its time in seconds."""

    def __init__(self) -> None:
        self._actions: list[tuple[float, int, Callable[..., None], tuple[Any, ...]]] = []
        self._number = 0

    def at(self, time: float, action: Callable[..., None], *details: Any) -> None:
        """Call `action(time, *details)` when its time comes."""
        self._number += 1
        heapq.heappush(self._actions, (time, self._number, action, details))

    def run(self, until: float) -> None:
        while self._actions and self._actions[0][0] <= until:
            time, _, action, details = heapq.heappop(self._actions)
            action(time, *details)
