"""The output of `decode`: messages one line each, or one frame as a tree of layers and fields."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.text import Text
from rich.tree import Tree

from ibcmtool import formatting
from ibcmtool.reports import message_summary, style

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ibcmtool.model import CmMessage, Frame
    from ibcmtool.reports.clock import Clock
    from ibcmtool.reports.page import Page
    from ibcmtool.wire.detail import FieldDetail, LayerDetail

ENOUGH = 40  # columns for the fields beside the rest of a message's line
BELOW = 8  # indent of fields that stand below
MANY_BYTES = 16  # a field's own words show the bytes of longer ones


def message_lines(page: Page, message: CmMessage, clock: Clock) -> Iterator[Text]:
    """Frame, time, source -> destination, type, telling fields, and what is wrong with the packet itself.

    One line, but on a narrow terminal the fields stand below.
    """
    head = Text.assemble(
        f"{message.frame:>6}  ",
        (clock.time(message.time), style.QUIET),
        f"  {page.clean(_ends(page, message)):<26}  ",
        (f"{message.type:<8}", style.HEAD),
        "  ",
    )
    body = page.text(message_summary.line(message_summary.telling(message)))
    if message.icrc_ok is False:
        body.append("  ICRC wrong", style.BAD)
    if any(value is None for value in message.fields):
        body.append("  cut short", style.BAD)
    room = None if page.width is None else page.width - head.cell_len
    lines = page.wrapped(body, room)
    indent = head.cell_len
    if page.width is not None and room is not None and room < min(body.cell_len, ENOUGH):
        indent = BELOW
        lines = [Text(), *page.wrapped(body, page.width - indent)]
    for at, part in enumerate(lines):
        line = Text.assemble(head if at == 0 else " " * indent, part)
        line.rstrip()
        yield line


def frame_tree(
    page: Page, frame: Frame, message: CmMessage, layers: Iterable[LayerDetail], clock: Clock, *, show_hex: bool
) -> Tree:
    """All layers of a frame; with `show_hex`, where in its layer each field lies, and its bytes."""
    head = Text.assemble(
        (f"frame {frame.number}  {message.type}", style.HEAD),
        f"  {clock.full(frame.time, 9)}  {page.clean(_ends(page, message))}",
    )
    tree = Tree(head, guide_style=style.QUIET)
    for layer in layers:
        shown = [field for field in layer.fields if field.value is not None]
        branch = tree.add(Text(page.clean(layer.name), style.HEAD))
        for line in _field_lines(page, shown, show_hex):
            branch.add(line)
        if layer.captured is not None:
            missing = formatting.count(len(layer.fields) - len(shown), "field")
            place = formatting.count(layer.captured, "byte")
            branch.add(Text(f"cut here, {place} into the layer: {missing} missing", style.BAD))
    if len(frame.data) < frame.wire_length:
        text = f"cut here: {len(frame.data)} of {frame.wire_length} bytes of the frame were captured"
        tree.add(Text(text, style.BAD))
    return tree


def _field_lines(page: Page, fields: list[FieldDetail], show_hex: bool) -> Iterator[Text]:
    widest = max((len(field.name) for field in fields), default=0)
    place_width = max((len(_place(field)) for field in fields), default=0)
    words_width = max((len(field.words) for field in fields if len(field.raw) <= MANY_BYTES), default=0)
    for field in fields:
        idle = field.name.startswith("reserved_") and not field.value
        line = Text()
        if show_hex:
            line.append(f"{_place(field):<{place_width}}  ", style.QUIET)
        line.append(f"{field.name:<{widest}}  ", style.QUIET)
        line.append(page.clean(field.words), style.BAD if "[wrong" in field.words else style.QUIET if idle else "")
        if show_hex and len(field.raw) <= MANY_BYTES:
            line.append(" " * (words_width - len(field.words) + 2))
            line.append(field.raw.hex(" "), style.QUIET)
        yield line


def _ends(page: Page, message: CmMessage) -> str:
    return f"{formatting.address(message.source)} {page.glyphs.arrow} {formatting.address(message.destination)}"


def _place(field: FieldDetail) -> str:
    """Byte offset in the layer, and for fields inside a byte the bits of it: "43[0:5]" (bit 0 is the highest)."""
    if field.bit_offset is None:
        return "end"
    byte, bit = divmod(field.bit_offset, 8)
    return f"{byte}" if field.width % 8 == 0 and bit == 0 else f"{byte}[{bit}:{bit + field.width}]"


def message_object(message: CmMessage) -> dict[str, Any]:
    """One message for JSON; the fields look as in the report of `analyze`."""
    from ibcmtool.reports.message_json import fields_object

    return {
        "frame": message.frame,
        "time": formatting.seconds(message.time),
        "source": formatting.address(message.source),
        "destination": formatting.address(message.destination),
        "transport": message.transport,
        "type": message.type,
        "psn": message.psn,
        "tid": f"0x{message.tid:016x}",
        "icrc_ok": message.icrc_ok,
        "fields": fields_object(message.fields),
    }


def frame_object(frame: Frame, message: CmMessage, layers: Iterable[LayerDetail]) -> dict[str, Any]:
    """One frame with all its layers for JSON."""
    return {
        "frame": frame.number,
        "time": formatting.seconds(frame.time),
        "type": message.type,
        "captured": len(frame.data),
        "length": frame.wire_length,
        "layers": [
            {
                "layer": layer.layer,
                "fields": {
                    field.name: {"value": field.value, "words": field.words, "bytes": field.raw.hex()}
                    for field in layer.fields
                },
            }
            for layer in layers
        ],
    }
