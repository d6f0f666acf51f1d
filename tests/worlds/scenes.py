"""All scenes, by name."""

from __future__ import annotations

from worlds import faults, innocent
from worlds.scene import INNOCENT, SCENES

__all__ = ["INNOCENT", "KINDS", "SCENES", "faults", "innocent"]

KINDS = tuple(sorted(SCENES))
