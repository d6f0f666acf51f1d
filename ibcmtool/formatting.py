"""How numbers and names are put into words: durations, identifiers, addresses, outcomes, frames, counts.

Everything here is a pure function from a record's value to a string. Durations and times come in nanoseconds. A value
that the capture did not show (None) reads as "?". All results are ASCII.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Sequence
from typing import Final, get_args

from ibcmtool.model import End, Outcome
from ibcmtool.packets import Address

MICROSECOND: Final = 1_000
MILLISECOND: Final = 1_000_000
SECOND: Final = 1_000_000_000
MINUTE: Final = 60 * SECOND
HOUR: Final = 60 * MINUTE

UNKNOWN: Final = "?"

OUTCOMES: Final[dict[Outcome, str]] = {outcome: outcome.replace("_", " ") for outcome in get_args(Outcome)}
# Outcomes that somebody who waits for a connection would call a failure.
FAILURES: Final[tuple[Outcome, ...]] = ("stale", "half_open", "timed_out", "rejected")
# Every outcome in the order of a reader's interest.
OUTCOME_ORDER: Final[tuple[Outcome, ...]] = (*FAILURES, "connecting", "partial", "established", "closed", "resolved")


def duration(ns: int) -> str:
    """A duration to three digits: "16.4 us", "117 ms", "95.9 s", "2 min 3 s", "1 h 4 min", "2 d 3 h"."""
    if ns < 0:
        return "-" + duration(-ns)
    for unit, name, limit in (
        (1, "ns", 1000),
        (MICROSECOND, "us", 1000),
        (MILLISECOND, "ms", 1000),
        (SECOND, "s", 120),
    ):
        text = _three_digits(ns, unit)
        if float(text) < limit:
            return f"{text} {name}" if ns else "0 s"
    minutes, rest = divmod((ns + SECOND // 2) // SECOND, 60)
    if minutes < 60:
        return _pair(minutes, rest, "min", "s")
    hours, rest = divmod((ns + MINUTE // 2) // MINUTE, 60)
    if hours < 24:
        return _pair(hours, rest, "h", "min")
    return _pair(*divmod((ns + HOUR // 2) // HOUR, 24))


def _pair(large: int, small: int, large_name: str = "d", small_name: str = "h") -> str:
    return f"{large} {large_name} {small} {small_name}" if small else f"{large} {large_name}"


def _three_digits(ns: int, unit: int) -> str:
    value = ns / unit
    digits = 0 if value >= 99.95 else 1 if value >= 9.995 else 2
    text = f"{value:.{digits}f}"
    return text.rstrip("0").rstrip(".") if digits else text


def exact(ns: int) -> str:
    """A duration with every digit that it has: "117.034 ms", "65.899912 s"."""
    sign, ns = ("-", -ns) if ns < 0 else ("", ns)
    for unit, name in ((SECOND, "s"), (MILLISECOND, "ms"), (MICROSECOND, "us")):
        if ns >= unit:
            whole, rest = divmod(ns, unit)
            fraction = f"{rest:0{len(str(unit)) - 1}d}".rstrip("0")
            return f"{sign}{whole}.{fraction} {name}" if fraction else f"{sign}{whole} {name}"
    return f"{sign}{ns} ns" if ns else "0 s"


def seconds(ns: int) -> str:
    """Decimal seconds with nine digits, as the JSON carries times and durations: "65.899912000"."""
    if ns < 0:
        return "-" + seconds(-ns)
    return f"{ns // SECOND}.{str(SECOND + ns % SECOND)[1:]}"


def exponent(n: int | None) -> str:
    """What a 5-bit time field says: 4.096 us * 2^n (IBA 12.7), in words."""
    return UNKNOWN if n is None else duration(4096 << n)


def number(value: int) -> str:
    """An integer with thousands separated: "50,000"."""
    return f"{value:,}"


def count(value: int, noun: str, plural: str = "") -> str:
    """ "1 frame", "2 frames", "50,000 entries"."""
    return f"{value:,} {noun if value == 1 else plural or noun + 's'}"


def qpn(value: int | None) -> str:
    """ "0x000011"."""
    return UNKNOWN if value is None else f"0x{value:06x}"


psn = qpn  # 24 bits, too


def comm_id(value: int | None) -> str:
    """ "0x01f7a001"."""
    return UNKNOWN if value is None else f"0x{value:08x}"


def service_id(value: int | None) -> str:
    """ "0x0000000001061144"."""
    return UNKNOWN if value is None else f"0x{value:016x}"


def guid(value: int | None) -> str:
    """A GUID as four groups: "5054:00ff:feaa:0001"."""
    if value is None:
        return UNKNOWN
    digits = f"{value:016x}"
    return ":".join(digits[at : at + 4] for at in range(0, 16, 4))


def gid(value: bytes | None) -> str:
    """A GID as an IPv6 address; an IPv4-mapped one (RoCE v2 over IPv4) as the IPv4 address. Cut bytes stand in hex."""
    if value is None:
        return UNKNOWN
    if len(value) != 16:
        return value.hex() or UNKNOWN
    address = ipaddress.IPv6Address(value)
    return str(address.ipv4_mapped or address)


def address(value: Address) -> str:
    """The name of a port: its GID, else its LID ("LID 18")."""
    if value.gid is not None:
        return gid(value.gid)
    return UNKNOWN if value.lid is None else f"LID {value.lid}"


def end_name(end: End) -> str:
    """The name that people know an end by: IP:port, GID or LID."""
    return end.name or address(end.address)


def times(value: int) -> str:
    """How often: "once", "twice", "3 times"."""
    return {1: "once", 2: "twice"}.get(value, f"{value} times")


def numbers(values: Iterable[int]) -> str:
    """Sorted numbers with runs of three and more folded: "1-16, 20, 22"."""
    parts: list[str] = []
    run: list[int] = []
    for value in [*sorted(set(values)), None]:
        if value is not None and run and value == run[-1] + 1:
            run.append(value)
            continue
        if len(run) > 2:
            parts.append(f"{run[0]}-{run[-1]}")
        else:
            parts += [str(one) for one in run]
        run = [] if value is None else [value]
    return ", ".join(parts)


def frames(values: Sequence[tuple[int, int]], several_files: bool) -> str:
    """(file, frame) pairs in words: "frame 6", "frames 7, 8", with several inputs "frames 2:14, 1:3" (input:frame)."""
    if not values:
        return ""
    noun = "frame" if len(set(values)) == 1 else "frames"
    if not several_files:
        return f"{noun} {numbers(frame for _, frame in values)}"
    by_file: dict[int, list[int]] = {}
    for file, frame in values:
        by_file.setdefault(file, []).append(frame)
    return f"{noun} " + ", ".join(
        ", ".join(f"{file + 1}:{part}" for part in numbers(by_file[file]).split(", ")) for file in sorted(by_file)
    )


def frame(value: tuple[int, int], several_files: bool) -> str:
    """A (file, frame) pair: "6", with several inputs "2:14"."""
    file, number = value
    return f"{file + 1}:{number}" if several_files else str(number)


def listed(parts: Sequence[str]) -> str:
    """ "a", "a and b", "a, b and c"."""
    return " and ".join(filter(None, (", ".join(parts[:-1]), *parts[-1:])))
