"""Bytes and messages: where a CM MAD is in a frame, what its fields hold, and packets around bare MADs."""

from __future__ import annotations

Buffer = bytes | memoryview  # what is read from
