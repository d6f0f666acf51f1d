"""Which program a thread belongs to: the kernel tells the thread, people know the program."""

from __future__ import annotations

import re
import time
from collections import OrderedDict
from pathlib import Path

MOST = 1000  # threads remembered
FRESH = 2.0  # seconds: a number may belong to another thread later
STATUS = re.compile(r"^Name:\t([^\n]*)$.*?^Tgid:\t(\d+)$", re.MULTILINE | re.DOTALL)


class Programs:
    """Names threads by their program, "rping-399"."""

    def __init__(self, proc: Path = Path("/proc")) -> None:
        self._proc = proc
        self._known: OrderedDict[tuple[str, int], tuple[float, str]] = OrderedDict()

    def name(self, task: str, thread: int) -> str:
        """A thread that has ended already, or that we do not see (in a container), goes by its own name and number."""
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
            # The kernel numbers threads for the whole machine; in a container, another one may have that number.
            if found is not None and found[1] == task and int(found[2]) != thread:
                return f"{(self._proc / found[2] / 'comm').read_text().rstrip()}-{found[2]}"
        except (OSError, UnicodeDecodeError):
            pass
        return f"{task}-{thread}"
