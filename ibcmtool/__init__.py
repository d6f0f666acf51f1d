"""Reads captures of InfiniBand and RoCE connection management and says what happened to each connection."""

from __future__ import annotations

__version__ = "0.1.0"
