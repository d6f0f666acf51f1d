"""Findings about captures, made when all of them were read: no event of a connection tells of them."""

from __future__ import annotations

from typing import Any

from ibcmtool.model import Confidence, Finding, Severity
from ibcmtool.rules.catalogue import CATALOGUE


def capture_finding(
    code: str,
    message: str,
    *,
    severity: Severity | None = None,
    confidence: Confidence = "certain",
    frames: tuple[tuple[int, int], ...] = (),
    evidence: dict[str, Any],
    time: int | None = None,
    advice: str | None = None,
) -> Finding:
    """A finding of no connection; what is not given is the rule's own."""
    entry = CATALOGUE[code]
    return Finding(
        code=entry.code,
        name=entry.name,
        severity=severity or entry.severity,
        confidence=confidence,
        policy="both",
        connection=None,
        related=(),
        frames=frames,
        message=message,
        advice=advice or entry.advice,
        evidence=evidence,
        time=time,
    )
