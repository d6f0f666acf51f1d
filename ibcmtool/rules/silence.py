"""Why a target may not answer: ICMP errors, the partition it was asked in; or it did, and its MRA was not captured."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final

from ibcmtool.connections.deadlines import SLACK, patience
from ibcmtool.connections.timers import most_sends
from ibcmtool.evidence import Ground
from ibcmtool.formatting import address, duration, frames, times
from ibcmtool.messages import Req, SidrReq
from ibcmtool.model import Connection, Step
from ibcmtool.packets import CmMessage
from ibcmtool.rules.context import Context
from ibcmtool.rules.steps import between
from ibcmtool.wire.envelope import envelope

ROCE_IS_OFF: Final = (
    "On the target, see whether an RDMA device serves this address (`rdma link`): soft RoCE (rdma_rxe) is not set up on"
    " the interface, or the adapter's RoCE is off there, so that its IP stack got the packets. The listening program"
    " does not matter yet."
)

DEFAULT_PARTITION: Final = 0xFFFF
PARTITION: Final = 0x7FFF  # without the bit of full membership

LONG_WAITS: Final = 3  # times its own wait: no timer of a requester lags so far behind


def mra_missed(context: Context, tries: Sequence[Step], reject: Step | None, wait: int) -> Iterator[Ground]:
    """What weakens that a REQ, sent so often until this REJ, had no answer at all: its sender acts as after an MRA.

    Or it may have had one for the second of two REQs: then it had not waited long enough yet that one can tell.
    """
    for one, other in pairwise(tries):
        if between(one, other) > LONG_WAITS * wait:
            sign = f"the REQ was not sent again for {duration(between(one, other))}, as after an MRA"
            yield Ground("complete", "weakened", sign)
            return
    first = tries[0].message
    if reject is None or (isinstance(first.fields, Req) and most_sends(first.fields) == 1):
        return
    pause = between(tries[-1], reject)
    if pause > patience(tries, wait + wait // SLACK):
        sign = f"the REQ was not sent again in the {duration(pause)} before the REJ, as after an MRA"
        yield Ground("complete", "weakened", sign)
    elif len(tries) == 2 and not _shows_answers(context, first, reject.message.time):
        ends = f"of {address(first.destination)}, or to {address(first.source)}"
        sign = f"no message {ends}, was captured; the second REQ may have had an MRA"
        yield Ground("complete", "weakened", sign)


def _shows_answers(context: Context, request: CmMessage, until: int) -> bool:
    """Whether more than one direction is captured, so that an answer to this request until then would have been."""
    requester, target, time = request.source, request.destination, request.time
    if requester in context.ports.addressed or target in context.ports.heard:
        return True
    errors = context.undelivered.since(requester, target, time)
    return bool(errors) or context.traces.hosts.missed_nothing(requester, time, until)


def reported(context: Context, first: Step) -> tuple[str, str] | None:
    """Half a sentence and advice on the target of messages from `first` on; None where no error came back."""
    target = first.message.destination
    errors = context.undelivered.since(first.message.source, target, first.message.time)
    if not errors:
        return None
    last, name = errors[-1], address(errors[-1].reporter)
    where = frames([(errors[0].file, errors[0].frame)], errors[0].file != first.message.file)
    seen = f"{times(len(errors))}, first in {where}"
    if last.reason == "port" and last.reporter == target:
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


def in_partition(context: Context, connection: Connection, first: Step) -> tuple[str, str]:
    """A sentence and advice on the P_Key of unanswered requests; both empty where nothing speaks against it."""
    asked, word = _partition(first.message), context.ports.newest(connection.passive.address)
    around = envelope(word) if word is not None else None
    spoken = around.partition_key if around is not None else None
    if asked is None or (asked ^ (DEFAULT_PARTITION if spoken is None else spoken)) & PARTITION == 0:
        return "", ""
    known = ""
    if spoken is not None and word is not None:
        where = frames([(word.file, word.frame)], word.file != first.message.file)
        known = f", the target was heard with 0x{spoken:04x} ({where})"
    advice = (
        "A port drops packets of a partition that it is not in without an answer: look for P_Key"
        f" 0x{asked:04x} in /sys/class/infiniband/DEV/ports/N/pkeys/* of the target."
    )
    return f" Their P_Key is 0x{asked:04x}{known}.", advice


def _partition(message: CmMessage) -> int | None:
    """The P_Key that a request names; where that is the default one, the P_Key that it was sent with."""
    around, fields = envelope(message), message.fields
    named = fields.partition_key if isinstance(fields, (Req, SidrReq)) else None
    if around is None or (named is not None and (named ^ DEFAULT_PARTITION) & PARTITION):
        return named
    return around.partition_key
