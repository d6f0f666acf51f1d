"""The report of inputs without CM messages: what they hold instead, and what to try."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.text import Text

from ibcmtool.analysis import LIVE, InputInfo, Traffic
from ibcmtool.formatting import count
from ibcmtool.reports import style
from ibcmtool.reports.page import Page

LATE = (
    "Either the capture starts after the connections were made (start it before, or reconnect), or the NIC hides RoCE "
    "traffic from the network interface (capture with ibdump, a switch's mirror port, or the driver's sniffer mode)."
)


def lines(page: Page, inputs: Sequence[InputInfo]) -> Iterator[Text]:
    """Why there is no connection to show."""
    if any(info.cm_messages for info in inputs):
        yield page.text("No connection to show.", style.HEAD)
        return
    yield page.text("No CM messages.", style.HEAD)
    if all(info.format == LIVE for info in inputs):
        return
    looks = [info.traffic for info in inputs if info.traffic is not None]
    for text in _found(looks) if looks else (LATE,):
        yield from page.hanging(Text("  "), page.text(text))


def _found(looks: Sequence[Traffic]) -> Iterator[str]:
    rdma, gsi = sum(look.rdma for look in looks), sum(look.to_qp1 for look in looks)
    cut_gsi, cut = sum(look.cut_to_qp1 for look in looks), sum(look.cut_in_headers for look in looks)
    mpa = sum(look.mpa for look in looks)
    frames = count(sum(look.frames for look in looks), "frame")
    if cut_gsi:
        yield (
            f"{count(cut_gsi, 'packet')} to QP 1, cut by the snap length in front of the message: capture again "
            "without one (tcpdump -s 0)."
        )
    if cut:
        yield (
            f"{count(cut, 'frame')} of {frames}, cut by the snap length before it can be told what they are: capture "
            "again without one (tcpdump -s 0)."
        )
    if mpa:
        yield (
            f"{count(mpa, 'frame')} of {frames} begin an iWARP connection (MPA over TCP): iWARP connects without the "
            "InfiniBand CM, so there is nothing here to judge."
        )
    if gsi > cut_gsi:
        yield f"{count(gsi - cut_gsi, 'packet')} to QP 1, of other management classes than the CM's."
    if rdma > gsi:
        yield (
            f"{count(rdma, 'packet')} of RoCE or InfiniBand, {'none' if not gsi else f'{gsi:,}'} to QP 1. Either the "
            "capture starts after the connections were made (start it before, or reconnect), or the queue pairs were "
            "connected without the CM: NCCL, perftest without -R and the ibv_*_pingpong programs exchange QPNs over "
            "TCP."
        )
    if not rdma and not cut and not mpa:
        yield (
            f"No packet of RoCE or InfiniBand among {frames}: the NIC hides RoCE traffic from the network interface "
            "(capture with ibdump, a switch's mirror port, or the driver's sniffer mode), or it went another way."
        )
