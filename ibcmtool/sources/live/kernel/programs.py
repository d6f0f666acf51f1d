"""Which program a thread belongs to: the kernel tells the thread, people know the program."""

from __future__ import annotations

import re
import time
from collections import OrderedDict
from pathlib import Path

MOST = 1000  # threads remembered
FRESH = 2.0  # seconds: a number may belong to another thread later
STATUS = re.compile(r"^Tgid:\t(\d+)$", re.MULTILINE)


class Programs:
    """Names threads by their program, "rping-399"."""

    def __init__(self, proc: Path = Path("/proc")) -> None:
        self._proc = proc
        self._known: OrderedDict[tuple[str, int], tuple[float, str]] = OrderedDict()

    def name(self, task: str, thread: int) -> str:
        """A thread that has ended already goes by its own name and number."""
        now = time.monotonic()
        known = self._known.get((task, thread))
        if known is not None and now - known[0] < FRESH:
            return known[1]
        name = self._look(task, thread)
        self._known[task, thread] = now, name
        if len(self._known) > MOST:
            self._known.popitem(last=False)
        return name

    def _look(self, task: str, thread: int) -> str:
        try:
            found = STATUS.search((self._proc / str(thread) / "status").read_text())
            if found is not None and int(found[1]) != thread:
                return f"{(self._proc / found[1] / 'comm').read_text().rstrip()}-{found[1]}"
        except (OSError, UnicodeDecodeError):
            pass
        return f"{task}-{thread}"
