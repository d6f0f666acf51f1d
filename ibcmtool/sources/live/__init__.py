"""Where frames come from while they happen: the kernel, umad, an interface, a stream, a growing or a replayed capture.

All of them are one thing to the rest of the program: a `LiveSource`. It is opened (or refused, with the reason and what
to do instead), runs in a thread of its own, delivers what arrives in batches, and is closed. Each is a package here,
which declares what it is in a `SourceKind`, and is loaded when it is used.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from importlib import import_module

from ibcmtool.sources.errors import SourceError
from ibcmtool.sources.live.source import LiveSource, SourceKind

__all__ = ["SOURCES", "LiveSource", "name_of", "source_kind", "source_of", "usage"]

# How a user names each, and its package. In this order they are listed.
SOURCES = {
    "kernel": "kernel",
    "umad[:DEV[:PORT]]": "umad",
    "iface:NAME": "interface",
    "- (a capture on standard input)": "stdin",
    "follow:FILE": "follow",
    "replay:FILE[@SPEED]": "replay",
}


def name_of(source: str) -> str:
    """What stands before the colon: "umad" of "umad[:DEV[:PORT]]", and of "umad:mlx5_0"."""
    return re.split(r"[\[: ]", source, maxsplit=1)[0]


def source_kind(source: str) -> SourceKind:
    """What the package of one of SOURCES declares."""
    kind: SourceKind = import_module(f"{__name__}.{SOURCES[source]}").SOURCE
    return kind


def source_of(text: str) -> LiveSource:
    """The source that a user names. Raises SourceError for a name that is none."""
    name, _, rest = text.partition(":")
    for source in SOURCES:
        if name_of(source) == name:
            return source_kind(source).create(text, rest)
    raise SourceError(text, "is no live source", f"name one of {usage(SOURCES)}")


def usage(sources: Iterable[str], last: str = " or ") -> str:
    """Some of SOURCES in one line; `last` stands in front of the last one."""
    *others, end = sources
    return ", ".join(others) + last + end
