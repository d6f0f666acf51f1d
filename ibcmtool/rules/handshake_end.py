"""H: how a handshake ends when it does not end well: unanswered, unconfirmed, or talked about after its end."""

from __future__ import annotations

from collections.abc import Iterator

from ibcmtool.connections.codes import TIMEOUT
from ibcmtool.connections.timers import max_cm_retries, response_wait
from ibcmtool.formatting import duration, end_name, times
from ibcmtool.model import Connection, Event, Step
from ibcmtool.rules.catalogue import CATALOGUE, Verdict, rule
from ibcmtool.rules.conditions import over, silent
from ibcmtool.rules.context import Context
from ibcmtool.rules.steps import before, heard, of_type, one_capture, sends, unanswered
from ibcmtool.rules.symptoms import of_silence

AFTER_END = ("RTU", "MRA", "LAP", "APR", "REP")


def _given_up(history: str) -> bool:
    return silent(history) and history.count("J") < 2


def _no_rtu(history: str) -> bool:
    return "U" not in history


@rule(
    "H05",
    "rtu-missing",
    "A REP that no RTU followed",
    severity="error",
    on=("REP_EXHAUSTED", "ENDED"),
    history=_no_rtu,
    clause="IBA 12.9.7.1, 12.9.7.2; COMM_EST makes the RTU dispensable once data arrives",
    explanation=(
        "The active side confirms a REP with an RTU. If every REP allowed was sent and neither RTU, MRA nor REJ came,"
        " the passive side drops the connection: an error, and the consumer sees a failed accept. If the connection"
        " worked without a captured RTU (data or a DREQ followed, or the REP was not repeated) that is information: the"
        " first data packet establishes the passive side as well."
    ),
    false_positives=(
        "An RTU lost before the capture point looks the same as one never sent; the sentence says not captured. Silent"
        " when the REQ was not captured (the active side's direction may be missing) and after an MRA (R06)."
    ),
    advice=(
        "See whether the REPs reach the active side (is its REQ still repeated?): if not, the path from passive to"
        " active is broken for CM MADs; if so, its consumer hangs between REP and RTU or its RTU is lost on the way."
    ),
)
def rtu_missing(event: Event, view: Context) -> Iterator[Verdict]:
    connection = event.connection
    if connection.request is None or connection.reply is None:
        return  # without the REQ there is no telling that the active side's direction was captured
    replies = of_type(connection, "REP")
    if not replies or of_type(connection, "MRA", sender="active"):
        return  # a promise that was not kept is R06
    tries = sends(connection, replies[-1])
    retries = max_cm_retries(connection.request)
    if retries and len(tries) > retries:
        last = tries[-1].message.time
        due = min(event.time, last + response_wait(connection.request, "passive").nominal)
        if event.kind == "REP_EXHAUSTED" and view.covered(connection, last, due):
            yield _unconfirmed(connection, tries, retries + 1)
    elif event.kind == "ENDED" and connection.reject is None:
        yield from _unseen(connection, tries, view.watched(connection, tries[-1].message.time, event.time))


def _unconfirmed(connection: Connection, tries: list[Step], allowed: int) -> Verdict:
    """The verdict on a REP repeated to exhaustion."""
    first, last = tries[0], tries[-1]
    span = last.message.time - first.message.time
    repeated = [
        step
        for step in of_type(connection, "REQ")
        if step.retransmission_of is not None and step.message.time > first.message.time
    ]
    return Verdict(
        f"{len(tries)} of {allowed} sends of the REP over {duration(span)}, and no RTU, MRA or REJ from"
        f" {end_name(connection.active)} was captured."
        + (
            f" Its REQ was repeated {times(len(repeated))} meanwhile: the REPs did not get through." if repeated else ""
        ),
        (first, last),
        {"sends": len(tries), "allowed": allowed, "span_ns": span, "requests_repeated": len(repeated)},
    )


def _unseen(connection: Connection, tries: list[Step], silence: int) -> Iterator[Verdict]:
    """The verdict on a REP that was not repeated to the end, so that its RTU (or data) must have arrived.

    `silence`: how long (ns) the connection was watched after the last REP.
    """
    dreqs = of_type(connection, "DREQ")
    data = connection.first_data.get("active")
    wait = response_wait(connection.request, "passive").nominal
    if dreqs:
        proof = "a DREQ shows that the connection worked"
    elif silence <= wait + wait // 4:
        return  # the capture ends before the RTU had to be there
    elif data is not None:
        proof = f"data (frame {data.frame}) shows that the connection works"
    else:
        proof = (
            f"the REP was not repeated in the {duration(silence)} that followed: it arrived, or the passive side ended"
        )
    yield Verdict(
        f"No RTU was captured, but {proof}.",
        (tries[0], *dreqs[:1]),
        {"sends": len(tries), "dreqs": len(dreqs), "data_frame": data.frame if data is not None else None},
        confidence="certain" if dreqs or data is not None else "possible",
        severity="info",
    )


@rule(
    "H08",
    "message-after-end",
    "A handshake message long after both sides had left",
    severity="warning",
    on=AFTER_END,
    history=over,
    clause="IBA 12.9.7; no state after the end accepts these messages (Linux cm.c handlers)",
    explanation=(
        "After DREP, or after a REJ, the exchange is over for both sides. An RTU, MRA, LAP, APR or REP for it more than"
        " one response timeout later is dropped by every CM known: its sender holds a state that its peer has given up."
        " When the late message only repeats an earlier one, its sender probably never got the REJ: information."
    ),
    false_positives=(
        "Messages that cross the end on the wire (within one response timeout) are not reported, nor an MRA after a REJ"
        " that may answer a repeated REQ. Clocks of several"
        " inputs may disagree (then possible). Delayed duplicates from the network look the same."
    ),
    advice="Check the sender of the late message: it holds the connection still. Expect S02 when it returns.",
)
def message_after_end(event: Event, view: Context) -> Iterator[Verdict]:
    connection, step = event.connection, event.step
    if step is None:
        return
    late: list[Step] = []
    end = None
    for earlier in before(connection, step):
        if earlier.message.type in ("REQ", "SIDR_REQ"):
            return  # a new attempt since
        if earlier.message.type in ("DREP", "REJ"):
            end = earlier
            break
        if earlier.message.type in AFTER_END:
            late.append(earlier)
    if end is None or (step.message.type == "REP" and _left_to_h02(end)):
        return
    if step.message.type == "MRA" and step.sender == "passive" and end.message.type == "REJ":
        return  # the REJ was lost, and a REQ came again that the capture has late or not at all
    wait = max(response_wait(connection.request, role).nominal for role in ("active", "passive"))
    gap = step.message.time - end.message.time
    if gap <= wait or any(old.message.time - end.message.time > wait for old in late):
        return
    if not view.covered(connection, end.message.time, step.message.time):
        return
    unaware = step.retransmission_of is not None and end.message.type == "REJ" and step.sender != end.sender
    yield Verdict(
        f"{step.message.type} {duration(gap)} after the {end.message.type} that ended the exchange (one response"
        f" timeout: {duration(wait)})."
        + (" It repeats an earlier one: the REJ probably did not arrive." if unaware else ""),
        (end, step),
        {"gap_ns": gap, "wait_ns": wait},
        confidence="probable" if one_capture(end, step) else "possible",
        severity="info" if unaware else None,
    )


def _left_to_h02(end: Step) -> bool:
    return end.message.type == "REJ" and (end.sender == "passive" or end.message.fields.reason == TIMEOUT)


@rule(
    "H18",
    "req-exhausted",
    "The requester gave up: none of its REQs was answered",
    severity="warning",
    on=("REQ_EXHAUSTED", "REJ"),
    history=_given_up,
    clause="IBA 12.9.7.1 and 12.7.27 (Max CM Retries); Linux cm_process_send_error",
    explanation=(
        "The requester sent its REQ Max CM Retries + 1 times, or fewer times and then a REJ with reason 4 (timeout);"
        " its consumer sees an unreachable peer. The REQs passed the capture point. What happened behind it is not in"
        " the capture: the target is down, filters or drops CM MADs, ignores the REQ (Linux does so while it holds a"
        " connection with the same Communication ID), or its answers take a path that is not captured. Where all"
        " messages of an input are from or to one address it was probably captured there: at the target's side the REQs"
        " did arrive. A requester whose REQs never came by the capture point is C02."
    ),
    false_positives=(
        "Fewer sends than allowed without a REJ are information: the capture may have missed some, or the requester"
        " ended early. A REJ earlier than one timeout after the first REQ is the consumer's will, and no finding."
        " If nothing of the target's address was ever captured, its direction may be missing from the capture"
        " (then probable). Silent when an MRA, REP or REJ was seen."
    ),
    advice=(
        "If captured at the target's port, the network delivered the REQs: look at the target (link state, listener,"
        " firewall for UDP 4791, CM drops in sysfs cm_rx_msgs). If captured at the requester's, capture at the target"
        " too."
    ),
)
def req_exhausted(event: Event, view: Context) -> Iterator[Verdict]:
    connection, reject = event.connection, event.step
    tries = unanswered(event)  # of one that was not even repeated the answer was missed, or the requester ended
    if not tries:
        return
    begin, last = tries[0].message.time, tries[-1].message.time
    span, wait = last - begin, response_wait(connection.request, "active").nominal
    if reject is not None and reject.message.time - begin < wait:
        return
    if not view.covered(connection, last, min(event.time, last + wait)):
        return
    retries = max_cm_retries(connection.request)
    allowed = len(tries) if retries is None else retries + 1
    target = end_name(connection.passive)
    known = heard(view, connection, "passive")
    exhausted = len(tries) >= allowed
    complete = reject is not None or exhausted
    where, advice = _vantage(view, connection, tries)
    yield Verdict(
        f"{len(tries)} of {allowed} sends of the REQ to {target} unanswered over {duration(span)}"
        + (", then the requester gave up (REJ 4). " if reject else ". " if complete else ", then it fell silent. ")
        + f"{where}; "
        + (
            "other CM messages of that address were captured."
            if known
            else "no CM message of that address was ever captured: it is down or unreachable, or only one direction was"
            " captured."
        ),
        (tries[0], tries[-1], *((reject,) if reject is not None else ())),
        {
            "sends": len(tries),
            "allowed": allowed,
            "span_ns": span,
            "wait_ns": wait,
        },
        confidence="possible" if not complete else "certain" if known else "probable",
        severity=None if complete else "info",
        advice=f"{advice or CATALOGUE['H18'].advice} {of_silence(connection)}".rstrip() if exhausted else advice,
    )


def _vantage(view: Context, connection: Connection, tries: list[Step]) -> tuple[str, str | None]:
    """Did the REQs arrive, as far as the place tells where they were captured? In words, with advice of its own."""
    file = tries[0].message.file
    further = sum(any(copy.file != step.message.file for copy in step.sightings) for step in tries)
    if further:
        return f"The network carried {further} of them to a second capture point", None
    coverage, ports = view.coverage, (connection.active.address, connection.passive.address)
    begin, end = tries[0].message.time, tries[-1].message.time
    if coverage.several:
        places = coverage.places()
        for place in sorted(set(places) - {places[step.message.file] for step in tries}):
            both = coverage.packets(place, ports) or coverage.packets(place, ports[::-1])
            if both and coverage.place_covers(place, begin, end):
                return (
                    f"Input {place + 1} shows these two hosts and was being captured meanwhile, but not the REQs",
                    "Look for drops between the two capture points: switch counters, PFC, MTU, a filter for UDP 4791.",
                )
    shared = view.ports.shared.get(file, ())
    if len(shared) != 1:
        return "The capture saw them at its capture point", None
    if shared[0] == connection.passive.address:
        return (
            "Captured at the target's port, it seems (all CM messages are from or to it), so they got there",
            "Look at the target: listener and its backlog, CM drops in sysfs cm_rx_msgs, firewall for UDP 4791.",
        )
    return (
        "Captured at the requester's port, it seems (all CM messages are from or to it): no telling if they arrived",
        "Capture at the target too: if the REQs are there, look at its listener and CM; if not, at the network.",
    )
