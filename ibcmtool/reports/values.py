"""Values by the name of their field: which integer is an identifier, and how it is written."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ibcmtool import words

# By the end of the field's name; the first that fits counts.
_IDENTIFIERS: tuple[tuple[str, Callable[[int], str]], ...] = (
    ("qpn", words.qpn),
    ("guid", words.guid),
    ("comm_id", words.comm_id),
    ("request_id", words.comm_id),
    ("service_id", words.service_id),
    ("tid", "0x{:016x}".format),
)


def plain(name: str, value: Any) -> Any:
    """The value as JSON carries it: identifiers and GIDs as text, other bytes in hexadecimal, the rest as it is."""
    if isinstance(value, (list, tuple, set, frozenset)):
        return [plain(name, one) for one in value]
    if isinstance(value, bytes):
        return words.gid(value) if len(value) == 16 and _ends(name, "gid") else value.hex()
    if isinstance(value, int) and not isinstance(value, bool):
        for ending, text in _IDENTIFIERS:
            if _ends(name, ending):
                return text(value)
    return value


def _ends(name: str, ending: str) -> bool:
    """Whether the name is the ending (in singular or plural), or ends in it as a word."""
    name = name.removesuffix("s")
    return name == ending or name.endswith("_" + ending)
