"""What a rule may look at besides the event itself."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Any

from ibcmtool.model import Address, Policy


@dataclass(slots=True)
class View:
    """The chosen policy, what the capture covers, and a rule's own memory between events.

    `memory` is keyed by rule code first. It never grows with the number of connections: what a rule keeps there is
    bounded by the number of CAs (T08, T10), of their ports (X03) or of inputs (X05), or by a constant, the newest
    staying (X02, S09, R07). A connection that is kept (X02, T10) stays in memory when the tracker has forgotten it.
    """

    policy: Policy = "relaxed"
    start: int = 0  # time of the first CM message
    longest: int = 0  # ns that a connection lasted that has ended
    heard: set[Address] = field(default_factory=set)  # the addresses from which ends of connections have spoken
    memory: defaultdict[str, dict[Hashable, Any]] = field(default_factory=lambda: defaultdict(dict))
