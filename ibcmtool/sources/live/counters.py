"""What ib_cm counts since it was loaded: cm_{rx_msgs,rx_duplicates,tx_msgs,tx_retries} of each port in sysfs.

Received messages are counted as they come. Sent ones are counted when they are through, with all their repetitions, and
an answer that is given again by hand counts as two: what was sent cannot be compared with what was seen.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from ibcmtool.sources.live.ports import ROOT, Port, ports, text_of

GROUPS = ("rx_msgs", "rx_duplicates", "tx_msgs", "tx_retries")
# File names in the order of a connection's life, and the message types of the tool.
MESSAGES = {
    name.lower(): name
    for name in ("REQ", "MRA", "REJ", "REP", "RTU", "DREQ", "DREP", "SIDR_REQ", "SIDR_REP", "LAP", "APR")
}

Counts = Counter[tuple[str, str]]  # by group and message type


def read_counters(port: Port) -> Counts:
    """The counters of one port; empty where ib_cm does not hold it."""
    counts: Counts = Counter()
    for group in GROUPS:
        for file, message in MESSAGES.items():
            text = text_of(port.path / f"cm_{group}" / file)
            if text.isdigit():
                counts[group, message] = int(text)
    return counts


def all_counters(root: Path = ROOT) -> dict[Port, Counts]:
    """Of every port that ib_cm holds."""
    return {port: read_counters(port) for port in ports(root) if port.managed}


def received(root: Path = ROOT) -> Counter[str]:
    """Messages received on all ports, by type."""
    total: Counter[str] = Counter()
    for counts in all_counters(root).values():
        total.update({message: counts["rx_msgs", message] for message in MESSAGES.values()})
    return total


class Comparison:
    """What was captured beside what ib_cm counted as received meanwhile.

    The counters are read on both sides of the moment when the capture begins, and of that when it ends: a message that
    comes just then may be in either.
    """

    def __init__(self, root: Path = ROOT) -> None:
        self._root = root
        self._begun = [received(root)]
        self._ended: list[Counter[str]] = []
        self.captured: Counter[str] = Counter()

    def begin(self) -> None:
        """The capture runs now."""
        self._begun.append(received(self._root))

    def end(self) -> None:
        """Called before the last of the capture is taken, and again when it has stopped."""
        self._ended.append(received(self._root))

    def sentence(self) -> str:
        """One line for the end of a run; "" when nothing was counted and nothing captured."""
        counted = {
            message: (
                self._ended[0][message] - self._begun[-1][message],
                self._ended[-1][message] - self._begun[0][message],
            )
            for message in MESSAGES.values()
        }
        wrong = [message for message, (low, high) in counted.items() if not low <= self.captured[message] <= high]
        if wrong:
            each = ", ".join(f"{counted[name][1]:,} {name} ({self.captured[name]:,} captured)" for name in wrong)
            return f"ib_cm counted other numbers of messages received than were captured: {each}"
        each = ", ".join(f"{self.captured[name]:,} {name}" for name in MESSAGES.values() if self.captured[name])
        return f"ib_cm counted as many messages received as were captured: {each}" if each else ""
