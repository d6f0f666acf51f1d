"""Counts over all connections of an analysis, and over all findings."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from ibcmtool.model import Address, Outcome, Severity


@dataclass(slots=True)
class Totals:
    """Counts over all connections of an analysis, also over those that were not kept."""

    connections: int = 0
    outcomes: Counter[Outcome] = field(default_factory=Counter)
    reject_reasons: Counter[int | None] = field(default_factory=Counter)  # of rejected connections
    services: Counter[str] = field(default_factory=Counter)
    pairs: Counter[tuple[Address, Address]] = field(default_factory=Counter)  # active, passive
    findings: Counter[tuple[str, Severity, str]] = field(default_factory=Counter)  # code, severity, name
