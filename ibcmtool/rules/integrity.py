"""C06: CM messages that were damaged on the way: their receiver's port drops them without a word."""

from __future__ import annotations

from collections.abc import Iterator

from ibcmtool.formatting import address, duration
from ibcmtool.model import Address, Connection, Event, Step
from ibcmtool.rules.catalogue import Verdict, rule
from ibcmtool.rules.conditions import again, anew
from ibcmtool.rules.context import Context
from ibcmtool.rules.once import MOST_TOLD

REPEATABLE = ("REQ", "MRA", "REJ", "REP", "RTU", "DREQ", "DREP", "LAP", "APR", "SIDR_REQ", "SIDR_REP")


def _repeated(history: str) -> bool:
    """Its sender has sent a message of this type before: the same bytes, or others (one may be damaged)."""
    return again(history) or anew(history)


def _damaged(step: Step) -> bool:
    return step.message.icrc_ok is False


def _after_damage(connection: Connection, step: Step) -> bool:
    """Whether this message arrived whole and an earlier one did not."""
    return not _damaged(step) and any(_damaged(earlier) for earlier in connection.steps)


@rule(
    "C06",
    "bad-icrc",
    "A message with a wrong ICRC was sent again",
    severity="info",
    on=REPEATABLE,
    history=_repeated,
    when=_after_damage,
    clause="IBA 7.8.1, annexes A16 and A17 (ICRC); a port drops a packet whose ICRC is wrong",
    explanation="The invariant CRC of the packet does not fit its bytes: it was damaged on the way to the capture "
    "point. A receiver that got it like that dropped it in hardware and its CM never saw it, which is why the sender "
    "repeated it one timeout later. A warning at the second damaged message between the same two ports: then it is no "
    "single bit error. Nothing of this is a fault of a CM.",
    false_positives="A capture taken inside the sender, before its port has computed the ICRC, shows all of them "
    "wrong: silent for a message that was answered before it came again. A snap length that cuts the packet leaves the "
    "ICRC unchecked.",
    advice="Look for bit errors on the path between the two ports: symbol and receive errors of their ports and of the "
    "switches between (perfquery, ethtool -S), on mlx5 rx_icrc_encapsulated in the port's hw_counters.",
)
def bad_icrc(event: Event, view: Context) -> Iterator[Verdict]:
    connection, step = event.connection, event.step
    if step is None:
        return
    earlier = connection.steps[: connection.steps.index(step)]
    said = [s for s in earlier if s.sender == step.sender and s.message.type == step.message.type]
    if not said or not _damaged(said[-1]) or said[-1].message.tid != step.message.tid:
        return
    damaged = said[-1]
    if _answered(earlier, damaged):
        return  # so it had arrived whole
    message, gap = damaged.message, step.message.time - damaged.message.time
    source, destination = message.source, message.destination
    count = _count(view, source, destination)
    yield Verdict(
        f"{message.type} from {address(source)} to {address(destination)} was captured with a wrong ICRC: a receiver "
        f"that got it so has dropped it. That is why it came again {duration(gap)} later (frame {step.message.frame})."
        + (f" So far {count} messages between these ports were damaged." if count > 1 else ""),
        (damaged, step),
        {"repeated_after_ns": gap, "damaged_between_ports": count},
        confidence="probable",
        severity="warning" if count == 2 else None,
    )


def _answered(earlier: list[Step], damaged: Step) -> bool:
    """Whether the other side has said anything new since the damaged message."""
    later = earlier[earlier.index(damaged) + 1 :]
    return any(s.sender != damaged.sender and s.retransmission_of is None for s in later)


def _count(view: Context, source: Address, destination: Address) -> int:
    """How many damaged messages have gone between two ports, either way, with this one."""
    memory, ports = view.memory["C06"], (source, destination)
    if (destination, source) in memory:
        ports = (destination, source)
    count: int = memory.pop(ports, 0) + 1  # the newest last
    memory[ports] = count
    while len(memory) > MOST_TOLD:
        del memory[next(iter(memory))]
    return count
