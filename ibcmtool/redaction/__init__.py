"""Reports for the eyes of strangers: addresses, GUIDs and private data replaced, each by the same thing everywhere.

A frame is redacted before anything is read from it, so that no output can hold what was taken out, and every verdict
stands as it did: what was equal stays equal. What stays: Communication IDs, TransactionIDs, QPNs, PSNs, service ids and
ports, times, and of the private data the numbers of the protocols that are known.
"""

from __future__ import annotations

from ibcmtool.redaction.frames import Redactor

__all__ = ["Redactor"]
