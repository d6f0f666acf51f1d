"""Whether the kernel of this host can be asked."""

from __future__ import annotations

from collections.abc import Iterator

from ibcmtool.sources.errors import SourceError
from ibcmtool.sources.live.host import Host
from ibcmtool.sources.live.kernel.traced_kernel import TracedKernel
from ibcmtool.sources.live.source import Offer


def offers(host: Host) -> Iterator[Offer]:
    """One: no probe is set for it."""
    kernel = TracedKernel(host)
    try:
        kernel.tracefs()
        layout = kernel.layout()
    except SourceError as error:
        yield Offer("kernel", False, error.problem, error.hint)
        return
    found = f"every CM message that ib_cm sends or receives, and the program that sent it (offsets by {layout.origin})"
    yield Offer("kernel", True, found, "ibcmtool live kernel")
