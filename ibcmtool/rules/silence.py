"""Why a target may not answer: ICMP errors, the partition it was asked in; or it did, and its MRA was not captured."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
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

COUNT_REQS: Final = "On the target, read /sys/class/infiniband/DEV/ports/N/cm_rx_msgs/req before and after an attempt"
BELOW: Final = "below the CM drops the REQs"
IF_NOT: Final = "if not, see whether the host is up, then look at the network."

UNSEEN: Final = "unseen"  # in H18's memory: an answer of this target was not captured
HANGS: Final = "hangs"  # it asked for time
LOST: Final = 7  # so many messages in a row may be lost on the way
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
    usual = wait + wait // SLACK
    # Where a REQ is missing, the last pause tells nothing of those to come.
    gap = context.witness.missing(first.source, first.time, tries[-1].message.time)
    if pause > (usual if gap else patience(tries, usual)):
        sign = f"the REQ was not sent again in the {duration(pause)} before the REJ, as after an MRA"
        yield Ground("complete", "weakened", sign)
    elif len(tries) == 2 and not _shows_answers(context, first, reject.message.time):
        ends = f"of {address(first.destination)}, or to {address(first.source)}"
        sign = f"no message {ends}, was captured; the second REQ may have had an MRA"
        yield Ground("complete", "weakened", sign)


def answers_unseen(
    context: Context, memory: Mapping[Hashable, Step], tries: Sequence[Step], *, responsive: bool
) -> Iterator[Ground]:
    """What of the target's other connections weakens that these REQs had no answer; `memory` is H18's."""
    target = tries[0].message.destination
    rtu, mra = memory.get((target, UNSEEN)), memory.get((target, HANGS))
    if rtu is not None and not responsive:
        sign = f"an RTU to {address(target)} answers a REP that was not captured ({context.frame(rtu.message)})"
        yield Ground("complete", "weakened", sign)
    elif mra is not None and len(tries) == 2:
        sign = f"the second REQ may have had an MRA, as in another attempt ({context.frame(mra.message)})"
        yield Ground("complete", "weakened", sign)


def last_may_be_answered(tries: Sequence[Step], now: int, wait: int) -> Iterator[Ground]:
    """What weakens silence that was captured until `now`: the last REQ, after a few that were lost, has time left."""
    if now - tries[-1].message.time < wait and len(tries) <= LOST:
        yield Ground("complete", "weakened", "the capture ends before the answer to the last REQ was due")


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


def vantage(context: Context, connection: Connection, tries: Sequence[Step]) -> tuple[str, str | None]:
    """Did the REQs arrive, as far as the place tells where they were captured? In words, with advice of its own."""
    file = tries[0].message.file
    further = sum(any(copy.file != step.message.file for copy in step.sightings) for step in tries)
    if further:
        return f"The network carried {further} of them to a second capture point", None
    coverage, ports = context.coverage, (connection.active.address, connection.passive.address)
    if coverage.several:
        places = coverage.places()
        for place in sorted(set(places) - {places[step.message.file] for step in tries}):
            both = coverage.packets(place, ports) or coverage.packets(place, ports[::-1])
            if both and coverage.place_covers(place, tries[0].message.time, tries[-1].message.time):
                return (
                    f"Input {place + 1} shows these two hosts and was being captured meanwhile, but not the REQs",
                    "Look for drops between the two capture points: switch counters, PFC, MTU, on RoCE a switch's ACL.",
                )
    shared, native = context.ports.shared.get(file, ()), connection.transport == "InfiniBand"
    if len(shared) != 1:
        return "The capture saw them at its capture point", None
    if shared[0] == connection.passive.address:
        return (
            "Captured at the target's port, it seems (all CM messages are from or to it), so they got there",
            f"{COUNT_REQS}. If it rises, look at the listening program and its backlog; if not, something {BELOW}"
            + (" (see its P_Keys)." if native else " (with soft RoCE perhaps the host's firewall)."),
        )
    return (
        "Captured at the requester's port, it seems (all CM messages are from or to it): no telling if they arrived",
        f"{COUNT_REQS}, or capture there too. If they arrive, look at the listening program and its backlog; {IF_NOT}",
    )
