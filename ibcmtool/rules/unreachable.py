"""What ICMP errors say of a target that does not answer, and what to do about it."""

from __future__ import annotations

from typing import Final

from ibcmtool.formatting import address, frames, times
from ibcmtool.model import Connection, Step
from ibcmtool.rules.context import Context

ROCE_IS_OFF: Final = (
    "On the target, see whether an RDMA device serves this address (`rdma link`): soft RoCE (rdma_rxe) is not set up on"
    " the interface, or the adapter's RoCE is off there, so that its IP stack got the packets. The listening program"
    " does not matter yet."
)


def reported(context: Context, connection: Connection, first: Step) -> tuple[str, str] | None:
    """Half a sentence and advice on the target of requests from `first` on; None where no error came back."""
    active, passive = connection.active.address, connection.passive.address
    errors = context.undelivered.since(active, passive, first.message.time)
    if not errors:
        return None
    last, name = errors[-1], address(errors[-1].reporter)
    where = frames([(errors[0].file, errors[0].frame)], errors[0].file != first.message.file)
    seen = f"{times(len(errors))}, first in {where}"
    if last.reason == "port" and last.reporter == passive:
        return (
            f"the host is up, nothing takes UDP 4791 there (ICMP port unreachable, {seen})",
            ROCE_IS_OFF,
        )
    if last.reason == "prohibited":
        return (
            f"{name} rejects the packets (ICMP administratively prohibited, {seen})",
            f"Let UDP port 4791 pass: a firewall or ACL at {name} rejects it.",
        )
    what = "its port 4791" if last.reason == "port" else f"that {last.reason}"
    return (
        f"{name} cannot reach {what} (ICMP {last.reason} unreachable, {seen})",
        f"See whether the target is up, its address is right, and {name} has a route and a MAC address for it.",
    )
