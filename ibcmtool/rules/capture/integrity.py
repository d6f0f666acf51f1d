"""C06: CM messages that were damaged on the way: their receiver's port drops them without a word."""

from __future__ import annotations

from typing import Final

from ibcmtool.evidence import unopposed
from ibcmtool.formatting import address, duration
from ibcmtool.model import Connection, Step
from ibcmtool.rules.api import Context, Verdict, Verdicts, rule
from ibcmtool.rules.conditions import again, anew
from ibcmtool.values import Duration

REPEATABLE: Final = ("REQ", "MRA", "REJ", "REP", "RTU", "DREQ", "DREP", "LAP", "APR", "SIDR_REQ", "SIDR_REP")
MOST_PAIRS = 4096  # of ports, whose damaged messages are counted, the newest

C06 = rule(
    "C06",
    "bad-icrc",
    "A message with a wrong ICRC was sent again",
    severity="info",
    clause="IBA 7.8.1, annexes A16 and A17 (ICRC); a port drops a packet whose ICRC is wrong",
    explanation="The invariant CRC of the packet does not fit its bytes: it was damaged on the way to the capture"
    " point. A receiver that got it like that dropped it in hardware and its CM never saw it, which is why the sender"
    " repeated it one timeout later. A warning at the second damaged message between the same two ports: then it is no"
    " single bit error. Nothing of this is a fault of a CM.",
    false_positives="A capture taken inside the sender, before its port has computed the ICRC, shows all of them"
    " wrong: not reported for a message that was answered before it came again. A snap length that cuts the packet"
    " leaves the ICRC unchecked.",
    advice="Look for bit errors on the path between the two ports: symbol and receive errors of their ports and of the"
    " switches between (perfquery, ethtool -S), on mlx5 rx_icrc_encapsulated in the port's hw_counters.",
)


def _repeated(history: str) -> bool:
    """Its sender has sent a message of this type before: the same bytes, or others (one may be damaged)."""
    return again(history) or anew(history)


def _damaged(step: Step) -> bool:
    return step.message.icrc_ok is False


def _after_damage(connection: Connection, step: Step) -> bool:
    return any(_damaged(earlier) for earlier in connection.steps)


@C06.on_step(*REPEATABLE, history=_repeated, when=_after_damage, needs=("intact",))
def bad_icrc(connection: Connection, step: Step, context: Context) -> Verdicts:
    earlier, message = connection.steps[: connection.steps.index(step)], step.message
    sent = [at for at, s in enumerate(earlier) if s.sender == step.sender and s.message.type == message.type]
    if not sent or not _damaged(earlier[sent[-1]]) or earlier[sent[-1]].message.tid != message.tid:
        return
    damaged, since = earlier[sent[-1]], earlier[sent[-1] + 1 :]
    if any(s.sender != step.sender and s.retransmission_of is None for s in since):
        return  # the other side has said something new since, so it had arrived whole
    source, destination, gap = damaged.message.source, damaged.message.destination, message.time - damaged.message.time
    counts = context.memory["C06"]  # of damaged messages between two ports, either way; the newest last
    ports = (destination, source) if (destination, source) in counts else (source, destination)
    count: int = counts.pop(ports, 0) + 1
    counts[ports] = count
    if len(counts) > MOST_PAIRS:
        del counts[next(iter(counts))]
    yield Verdict(
        f"{message.type} from {address(source)} to {address(destination)} was captured with a wrong ICRC: a receiver "
        f"that got it so has dropped it. That is why it came again {duration(gap)} later ({context.frame(message)})."
        + (f" So far {count} messages between these ports were damaged." if count > 1 else ""),
        {"repeated_after": Duration(gap), "damaged_between_ports": count},
        (unopposed("received"),),
        steps=(damaged, step),
        severity="warning" if count == 2 else None,
    )
