"""Numbers and ends in the words of a sentence: what every rule says the same way."""

from __future__ import annotations

from ipaddress import IPv6Address

from ibcmtool.model import Address, End

_UNITS = ((1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "us"), (1, "ns"))


def duration(ns: int) -> str:
    """Three significant digits at most, in the unit that suits: "95.9 s", "117 ms", "53 us", "2110 s"."""
    sign, ns = ("-", -ns) if ns < 0 else ("", ns)
    for size, unit in _UNITS:
        if ns >= size:
            value = ns / size
            digits = 0 if value >= 100 else 1 if value >= 10 else 2
            text = f"{value:.{digits}f}"
            return f"{sign}{text.rstrip('0').rstrip('.') if '.' in text else text} {unit}"
    return "0 s"


def qpn(number: int) -> str:
    """A QPN as the reports print it: "0x000011"."""
    return f"0x{number:06x}"


def comm_id(number: int) -> str:
    """A Communication ID as the reports print it: "0xa0f70798"."""
    return f"0x{number:08x}"


def guid(number: int) -> str:
    """A CA GUID in four groups: "5054:00ff:feaa:0001"."""
    digits = f"{number:016x}"
    return ":".join(digits[at : at + 4] for at in range(0, 16, 4))


def address(where: Address) -> str:
    """An address for people: the IPv4 address of an IPv4-mapped GID, else the GID, else the LID."""
    if where.gid is not None:
        return gid(where.gid)
    return f"LID {where.lid}" if where.lid is not None else "an unknown address"


def gid(value: bytes) -> str:
    """A GID: dotted when it is IPv4-mapped, else eight groups of hex digits with the longest zeros left out."""
    if value[:12] == b"\0" * 10 + b"\xff\xff":
        return ".".join(str(byte) for byte in value[12:])
    return str(IPv6Address(value))


def end_name(end: End) -> str:
    """An end for people: the name that the tracker found for it, else its address."""
    return end.name or address(end.address)


def times(count: int) -> str:
    """How often: "once", "twice", "3 times"."""
    return {1: "once", 2: "twice"}.get(count, f"{count} times")
