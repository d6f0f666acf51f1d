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

    `memory` is keyed by rule code first; a rule keeps there only what grows with the number of CAs, never with the
    number of connections.
    """

    policy: Policy = "relaxed"
    start: int = 0  # time of the first CM message
    now: int = 0
    heard: set[Address] = field(default_factory=set)  # every address that sent a CM message
    memory: defaultdict[str, dict[Hashable, Any]] = field(default_factory=lambda: defaultdict(dict))
