"""GUIDs, GIDs, times and raw bytes as text. Plain Python, no Scapy."""

from __future__ import annotations

import struct


def exponent_time(exponent: int) -> int:
    """Nanoseconds of a 5-bit time exponent."""
    return 4096 << exponent


def duration_words(nanoseconds: int) -> str:
    """A duration with three significant digits: 4.10 us, 67.1 ms, 1.07 s."""
    for unit, size in (("s", 10**9), ("ms", 10**6), ("us", 10**3)):
        if nanoseconds >= size:
            value = nanoseconds / size
            return f"{value:.{max(0, 3 - len(str(int(value))))}f} {unit}"
    return f"{nanoseconds} ns"


def guid_text(guid: int) -> str:
    """ "5054:00ff:feaa:0002"."""
    text = f"{guid:016x}"
    return f"{text[:4]}:{text[4:8]}:{text[8:12]}:{text[12:]}"


def gid_text(gid: bytes) -> str:
    """IPv6 text of a GID; a shorter GID is filled with zeros."""
    import socket  # takes long to load, and captures over IPv4 need it seldom

    return socket.inet_ntop(socket.AF_INET6, gid.ljust(16, b"\0"))


def gid_bytes(gid: str | bytes) -> bytes:
    """16 bytes of a GID given as IPv6 text, IPv4 text (the IPv4-mapped GID of RoCE v2) or bytes. Raises ValueError."""
    if isinstance(gid, bytes):
        if len(gid) != 16:
            raise ValueError(f"a GID has 16 bytes, not {len(gid)}")
        return gid
    import socket

    try:
        if ":" in gid:
            return socket.inet_pton(socket.AF_INET6, gid)
        return struct.pack("!QI4s", 0, 0xFFFF, socket.inet_pton(socket.AF_INET, gid))
    except OSError:
        raise ValueError(f"not a GID: {gid!r}") from None


def bytes_words(data: bytes) -> str:
    """Hexadecimal, with the zeros at the end counted instead of written."""
    used = data.rstrip(b"\0")
    zeros = len(data) - len(used)
    tail = f"{zeros} zero byte{'s' if zeros > 1 else ''}" if zeros else ""
    return f"{used.hex(' ', -4)} + {tail}" if used and tail else used.hex(" ", -4) or tail


LEAST_TEXT = 3  # characters; fewer are rather a number
LARGEST_CODE = 255  # of a refusal, and of an errno


def data_words(data: bytes) -> str:
    """Bytes of an unknown format: text in quotes if they begin with some, else hexadecimal.

    Text ends with a zero byte or with the bytes. What can be a code of four bytes, in either byte order, is also told
    as the number that it would be.
    """
    used = data.rstrip(b"\0")
    text, _, rest = used.partition(b"\0")
    words = text.decode("utf-8", "replace")
    if len(words) >= LEAST_TEXT and words.isprintable() and "\ufffd" not in words:
        return f'"{words}"' + (f" + {rest.hex(' ', -4)}" if rest else "")
    if len(used) > 4:
        return used.hex(" ", -4)
    word = data[:4].ljust(4, b"\0")
    number = min((int.from_bytes(word, "little", signed=True), int.from_bytes(word, "big", signed=True)), key=abs)
    return f"{word.hex()} ({number})" if abs(number) <= LARGEST_CODE else word.hex()
