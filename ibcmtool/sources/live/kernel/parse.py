"""The lines of trace_pipe: what the probes and the tracepoint printed, as records.

A line: task-pid, CPU, flags, time of the trace clock in seconds, event, what it fetched. A line that is cut short or of
anything else is passed over.
"""

from __future__ import annotations

import re
import struct
import sys
from collections import defaultdict
from typing import NamedTuple

LINE = re.compile(
    rb"\s*(?P<task>.{1,32}?)-(?P<pid>\d+)\s+(?:\(\s*[\d-]*\)\s+)?\[\d+\]\s+(?:\S+\s+)?"  # the tgid may be shown
    rb"(?P<s>\d+)\.(?P<us>\d{6}): (?P<event>\w+): (?P<rest>.*)"
)
VALUE = re.compile(rb'(\w+)=(?:\{([^}]*)\}|"([^"]*)"|(\S+))')
PROGRAM = re.compile(rb' comm="(.*)"$')  # last on its line: it may hold anything
ATTEMPT = re.compile(rb"\bclass 0x7 .*?\btid 0x([0-9a-f]+) attr_id 0x([0-9a-f]+) .*=> dlid 0x([0-9a-f]+)")
WORDS = {size: struct.Struct(f"={size}Q") for size in (2, 5, 32)}  # memory was printed as words of this machine
LITTLE_WORDS = {size: struct.Struct(f"<{size}Q") for size in WORDS}
BRIEF = 1000  # nanoseconds in the unit of the printed times

MAD, GRH, GID = 32, 5, 2  # words


class ReceivedMad(NamedTuple):
    """cm_recv_handler: a MAD came. What the layout of this kernel does not tell is None."""

    time: int  # of the trace clock, ns
    mad: bytes
    grh: bytes  # 40 bytes; worth something only where there was a GRH
    flags: int | None  # ib_wc.wc_flags
    slid: int | None
    path: int | None  # the low bits of the destination LID
    port: int | None
    device: str


class SentMad(NamedTuple):
    """ib_post_send_mad: a MAD is to be sent."""

    time: int
    mad: bytes
    task: str  # name of the thread
    thread: int
    by_cm: bool  # ib_cm sends it, not another agent
    dgid: bytes | None  # where it goes, from ib_cm's own record of the connection
    dlid: int | None
    routed: bool | None  # with a GRH
    sgid: bytes | None
    port: int | None
    device: str


class SendAttempt(NamedTuple):
    """ib_mad_ib_send_mad: ib_mad hands a MAD to the device, for the first time or again."""

    time: int
    tid: int
    attribute: int
    dlid: int


TraceRecord = ReceivedMad | SentMad | SendAttempt


def parse(line: bytes, *, little: bool = sys.byteorder == "little") -> TraceRecord | None:
    """What a line tells; None where it is cut short, or of something else.

    little: byte order of the machine that the line is from.
    """
    found = LINE.match(line)
    if found is None:
        return None
    time = (int(found["s"]) * 1_000_000 + int(found["us"])) * BRIEF
    event, rest = found["event"], found["rest"]
    if event == b"ib_mad_ib_send_mad":
        attempt = ATTEMPT.search(rest)
        return None if attempt is None else SendAttempt(time, *(int(number, 16) for number in attempt.groups()))
    if event not in (b"rx", b"tx"):
        return None
    words = LITTLE_WORDS if little else WORDS
    values: defaultdict[bytes, bytes] = defaultdict(bytes)
    values.update({name: array or string or plain for name, array, string, plain in VALUE.findall(rest)})
    mad = _bytes(values[b"mad"], MAD, words)
    if mad is None:
        return None
    port, device = _number(values[b"port"]), _text(values[b"device"])
    flags = _number(values[b"flags"])
    if event == b"rx":
        grh = _bytes(values[b"grh"], GRH, words)
        if grh is None:
            return None
        slid, path = _number(values[b"slid"]), _number(values[b"path"])
        return ReceivedMad(time, mad, grh, flags, slid, path, port, device)
    by_cm = values.get(b"by", b"cm_recv_handler").startswith(b"cm_recv_handler")
    followed = by_cm and bool(_number(values[b"id"]))
    program = PROGRAM.search(rest)
    return SentMad(
        time,
        mad,
        _text(program[1] if program is not None else found["task"]),
        int(found["pid"]),
        by_cm,
        dgid=_bytes(values[b"dgid"], GID, words) if followed else None,
        dlid=_number(values[b"dlid"]) if followed else None,
        routed=bool(flags & 1) if followed and flags is not None else None,
        sgid=_bytes(values[b"sgid"], GID, words) if _number(values[b"attr"]) else None,
        port=port,
        device=device,
    )


def _bytes(text: bytes, size: int, words: dict[int, struct.Struct]) -> bytes | None:
    """Memory printed as {0x1,0x2,...}."""
    try:
        return words[size].pack(*[int(word, 16) for word in text.split(b",")])
    except (ValueError, struct.error):
        return None


def _number(text: bytes) -> int | None:
    """A number printed in decimal or hex; None for what is none: nothing, or (fault)."""
    try:
        return int(text, 0)
    except ValueError:
        return None


def _text(text: bytes) -> str:
    shown = text.decode("utf-8", "replace")
    return "" if shown == "(fault)" else shown
