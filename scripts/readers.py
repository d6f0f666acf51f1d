"""Writes message_readers.py and header_readers.py of ibcmtool/wire from the layers' field lists.

Usage: .venv/bin/python scripts/readers.py, behind scripts/layouts.py, which writes the messages' classes.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from pathlib import Path

from dissectors.cm import CM_LAYERS
from dissectors.fields import layout
from dissectors.mad import MAD, ClassPortInfo
from dissectors.slots import Slot
from dissectors.transport import BTH, DETH, GRH, LRH, ImmDt
from ibcmtool.messages import MESSAGES

WIRE = Path(__file__).resolve().parent.parent / "ibcmtool" / "wire"
LAYERS = {**CM_LAYERS, "ClassPortInfo": ClassPortInfo}

# What is read together of layers that follow each other: name of the reader, layers, fields.
CM_HEADERS = ("dest_qp", "psn", "q_key", "base_version", "mgmt_class", "class_version", "method", "tid", "attribute_id")
PATH = tuple(f"primary_{name}" for name in ("local_lid", "remote_lid", "local_gid", "remote_gid", "subnet_local"))
HEADERS = (
    ("packet_end", (LRH,), ("lnh", "packet_length")),
    ("lids", (LRH,), ("slid", "dlid")),
    ("local_route", (LRH,), ("slid", "dlid", "service_level")),
    ("next_header", (GRH,), ("next_header", "payload_length")),
    ("gids", (GRH,), ("sgid", "dgid")),
    ("global_route", (GRH,), ("hop_limit", "traffic_class", "flow_label", "sgid", "dgid")),
    ("lids_and_gids", (LRH, GRH), ("slid", "dlid", "sgid", "dgid")),
    ("destination_qp", (BTH,), ("dest_qp",)),
    ("transport", (BTH, DETH), ("partition_key", "dest_qp", "source_qp", "q_key")),
    ("cm_headers", (BTH, DETH, MAD), CM_HEADERS),
    ("cm_headers_immediate", (BTH, DETH, ImmDt, MAD), CM_HEADERS),
    ("attribute", (MAD,), ("attribute_id",)),
    ("request_key", (MAD,), ("tid", "attribute_id")),
    ("message_ids", (MAD, CM_LAYERS["REP"]), ("tid", "attribute_id", "local_comm_id", "remote_comm_id")),
    ("primary_path", (MAD, CM_LAYERS["REQ"]), PATH),
)

HEAD = '''\
"""{about}

Written by scripts/readers.py from `fields_desc` of the layers in dissectors: change the layers{more}.
Each takes a buffer and an offset in it, and raises struct.error where the buffer ends before what it reads.
"""

# fmt: off
from __future__ import annotations

{imports}from struct import Struct
from typing import Final
'''
WORDS = {8: "B", 16: "H", 32: "I", 64: "Q"}  # struct codes by width in bits


def message_readers() -> str:
    """The text of ibcmtool/wire/message_readers.py."""
    names = {kind: message.__name__ for kind, message in MESSAGES.items()}
    about = "Readers of the messages of Communication Management, whole ones, from the data behind the MAD header on."
    lines = [
        HEAD.format(about=about, more="", imports="from collections.abc import Callable\n"),
        "from ibcmtool.messages import (",
        *(f"    {name}," for name in sorted([*names.values(), "Fields"])),
        ")",
        "from ibcmtool.wire import Buffer",
        "",
    ]
    for kind, layer in LAYERS.items():
        slots = layout(layer)
        lines += reader_lines(kind.lower(), slots, [slot.name for slot in slots], names[kind])
    lines += [
        "# By message type, as in `CmMessage.type`.",
        "MESSAGE_READERS: Final[dict[str, Callable[[Buffer, int], Fields]]] = {",
        *(f'    "{kind}": read_{kind.lower()},' for kind in MESSAGES),
        "}",
    ]
    return "\n".join(lines) + "\n"


def header_readers() -> str:
    """The text of ibcmtool/wire/header_readers.py."""
    about = "Readers of what is needed of the headers in front of a message, and of its ids."
    head = HEAD.format(about=about, more=", or HEADERS there", imports="")
    lines = [head, "from ibcmtool.wire import Buffer", ""]
    for name, layers, fields in HEADERS:
        lines += reader_lines(name, stacked(layers, fields), fields, "")
    return "\n".join(lines).rstrip() + "\n"


def stacked(layers: Sequence[type], fields: Sequence[str]) -> list[Slot]:
    """The slots of layers that follow each other. Of several fields of one name the first keeps it."""
    slots: list[Slot] = []
    start = 0
    for layer in layers:
        taken = {slot.name for slot in slots}
        slots += [
            slot._replace(
                name=slot.name if slot.name in fields and slot.name not in taken else "",
                bit_offset=start + slot.bit_offset,
            )
            for slot in layout(layer)
        ]
        start = slots[-1].bit_offset + slots[-1].width
    return slots


def reader_lines(name: str, slots: Sequence[Slot], fields: Sequence[str], result: str) -> list[str]:
    """A function `read_NAME`: one struct call, and shifts and masks for fields that share a word with others."""
    kinds = {slot.name: "bytes" if slot.kind in ("gid", "bytes") else "int" for slot in slots}
    returned = result or f"tuple[{', '.join(kinds[field] for field in fields)}]"
    code, skipped, targets, values = "!", 0, [], {}
    for word in words(slots):
        width = sum(slot.width for slot in word)
        if not any(slot.name in fields for slot in word):
            skipped += width // 8
            continue
        if skipped:
            code, skipped = f"{code}{skipped}x", 0
        alone = len(word) == 1
        target = word[0].name if alone else f"w{len(targets)}"
        targets.append(target)
        code += WORDS[width] if width in WORDS and word[0].kind == "number" else f"{width // 8}s"
        if code.endswith("s") and kinds[word[0].name] == "int":
            target = f'int.from_bytes({target}, "{"little" if word[0].kind == "little" else "big"}")'
        for slot in word:
            right = word[0].bit_offset + width - slot.bit_offset - slot.width
            value = f"{target} >> {right}" if right else target
            values[slot.name] = value if slot is word[0] else f"{value} & 0x{(1 << slot.width) - 1:x}"
    return [
        f'_{name}: Final = Struct("{code}").unpack_from',
        "",
        "",
        f"def read_{name}(buffer: Buffer, offset: int) -> {returned}:",
        *listed("", targets, f" = _{name}(buffer, offset)"),
        *listed(f"return {result}", [values[field] for field in fields], ""),
        "",
        "",
    ]


def words(slots: Sequence[Slot]) -> list[Sequence[Slot]]:
    """The fields as the words that they are read in: runs that fill 4, 8, 2 or 1 bytes, halved where a field
    ends in their middle. A run that fills none is read as bytes.
    """
    found: list[Sequence[Slot]] = []
    while slots:
        count = next((count for width in (32, 64, 16, 8) if (count := filling(slots, width))), 0)
        if not count:
            count = next(n for n in range(1, len(slots) + 1) if sum(slot.width for slot in slots[:n]) % 8 == 0)
        found += halved(slots[:count])
        slots = slots[count:]
    return found


def filling(slots: Sequence[Slot], width: int) -> int:
    """How many of the first fields, all numbers, fill this width; 0: none do."""
    total = 0
    for count, slot in enumerate(slots, 1):
        total += slot.width
        if total >= width or slot.kind != "number":
            return count if total == width and slot.kind == "number" else 0
    return 0


def halved(word: Sequence[Slot]) -> list[Sequence[Slot]]:
    """A word in halves of whole bytes, and these again, as long as a field ends in the middle."""
    half = sum(slot.width for slot in word) // 2
    count = filling(word, half) if half in WORDS else 0
    return [*halved(word[:count]), *halved(word[count:])] if count else [word]


def listed(before: str, items: Sequence[str], after: str) -> list[str]:
    """A statement with a tuple, or a call, in lines of at most 120 columns, which end between two of its parts."""
    line = f"    {before}({', '.join(items)}{',' if len(items) == 1 else ''}){after}"
    if len(line) <= 120:
        return [line]
    unbroken = ", ".join(item.replace(" ", "\0") for item in items) + ","
    lines = textwrap.wrap(unbroken, 120, initial_indent=" " * 8, subsequent_indent=" " * 8)
    return [f"    {before}(", *(each.replace("\0", " ") for each in lines), f"    ){after}"]


if __name__ == "__main__":
    (WIRE / "message_readers.py").write_text(message_readers(), encoding="utf-8")
    (WIRE / "header_readers.py").write_text(header_readers(), encoding="utf-8")
