"""Where frames come from while they happen: the kernel, umad, an interface, a stream, a growing or a replayed capture.

All of them are one thing to the rest of the program: a `LiveSource`. It is opened (or refused, with the reason and what
to do instead), runs in a thread of its own, delivers what arrives in batches, and is closed. Each is a package here,
and is loaded when it is used.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from importlib import import_module

from ibcmtool.sources.errors import SourceError
from ibcmtool.sources.live.source import LiveSource, Offer, SourceKind

__all__ = ["SOURCES", "LiveSource", "name_of", "source_of", "usage"]

# By how a user names each. In this order they are listed.
SOURCES = {
    "kernel": SourceKind(
        "kernel.source:KernelSource",
        sees="every CM MAD that ib_cm sends or receives on this host, on InfiniBand and RoCE, whole, with the program "
        "that sent it",
        needs="root, kprobes, tracefs",
    ),
    "umad[:DEV[:PORT]]": SourceKind(
        "umad.source:UmadSource",
        sees="CM MADs sent to this host, where ib_cm does not own the class",
        needs="root, ib_umad, no ib_cm",
    ),
    "iface:NAME": SourceKind(
        "interface.source:InterfaceSource",
        sees="soft RoCE, a mirror port; RDMA devices where libpcap can (mlx4, mlx5)",
        needs="CAP_NET_RAW",
    ),
    "- (a capture on standard input)": SourceKind(
        "stdin.source:StandardInput",
        sees="a capture on standard input: `ibdump -w -`, `tcpdump -U --immediate-mode -w -`, over ssh",
        extcap=False,
    ),
    "follow:FILE": SourceKind(
        "follow.source:GrowingFile",
        sees="a capture that grows, is rotated or replaced",
        offer=Offer("follow:FILE", True, "a capture file that grows", "ibcmtool live follow:FILE"),
    ),
    "replay:FILE[@SPEED]": SourceKind(
        "replay.source:Replay",
        sees="a capture at its own pace, or faster (0: without pauses)",
        offer=Offer("replay:FILE", True, "a capture played again", "ibcmtool live replay:FILE"),
    ),
}


def name_of(source: str) -> str:
    """What stands before the colon: "umad" of "umad[:DEV[:PORT]]", and of "umad:mlx5_0"."""
    return re.split(r"[\[: ]", source, maxsplit=1)[0]


def source_of(text: str) -> LiveSource:
    """The source that a user names. Raises SourceError for a name that is none."""
    name, _, rest = text.partition(":")
    for source, kind in SOURCES.items():
        if name_of(source) == name:
            module, _, class_name = kind.made_by.partition(":")
            made: LiveSource = getattr(import_module(f"{__name__}.{module}"), class_name)(text, rest)
            return made
    raise SourceError(text, "is no live source", f"name one of {usage(SOURCES)}")


def usage(sources: Iterable[str], last: str = " or ") -> str:
    """Some of SOURCES in one line; `last` stands in front of the last one."""
    *others, end = sources
    return ", ".join(others) + last + end
