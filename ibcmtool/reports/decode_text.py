"""The output of `decode`: messages one line each, or one frame as a tree of layers and fields."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.cells import cell_len
from rich.text import Text
from rich.tree import Tree

from ibcmtool import formatting
from ibcmtool.engine.sink import Received
from ibcmtool.packets import CmMessage
from ibcmtool.reports import message_summary, style
from ibcmtool.reports.page import Page, Piece
from ibcmtool.reports.sink import Settings, Sink

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from ibcmtool.packets import Frame
    from ibcmtool.wire.detail import FieldDetail, LayerDetail

ENOUGH = 40  # columns for the fields beside the rest of a message's line
BELOW = 8  # indent of fields that stand below
MANY_BYTES = 16  # a field's own words show the bytes of longer ones


class MessageLines(Sink):
    """Writes a line a message."""

    at_once = True

    def __init__(self, settings: Settings) -> None:
        self._page = Page(settings.console(), settings.zone)
        self._at_once = settings.at_once

    def received(self, received: Received) -> None:
        page = self._page
        if isinstance(received.item, CmMessage):
            head, body = message_pieces(page, received.item)
            if page.width is None or sum(cell_len(text) for text, _ in head + body) <= page.width:
                page.write_pieces(head + body)
            else:
                page.write_lines(folded(page, Text.assemble(*head), Text.assemble(*body), page.width))
            if self._at_once:
                page.flush()

    def close(self) -> None:
        self._page.flush()

    def abort(self) -> None:
        self._page.flush()


class FrameTree(Sink):
    """Draws a frame as a tree of layers and fields."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    def layers(self, received: Received, layers: Sequence[LayerDetail]) -> None:
        page = Page(self._settings.console(), self._settings.zone)
        frame, message = received.frame, received.item
        if isinstance(message, CmMessage):
            page.console.print(frame_tree(page, frame, message, layers, show_hex=self._settings.show_hex))


def message_pieces(page: Page, message: CmMessage) -> tuple[list[Piece], list[Piece]]:
    """Frame, time, source -> destination, type; then telling fields, and what is wrong with the packet itself."""
    head = [
        (f"{message.frame:>6}  ", ""),
        (page.calendar.time(message.time), style.QUIET),
        (f"  {page.clean(_ends(page, message)):<26}  ", ""),
        (f"{message.type:<8}", style.HEAD),
        ("  ", ""),
    ]
    body = [(page.clean(message_summary.line(message_summary.telling_fields(message))), "")]
    if message.icrc_ok is False:
        body.append(("  ICRC wrong", style.BAD))
    if None in message.fields:
        body.append(("  cut short", style.BAD))
    return head, body


def folded(page: Page, head: Text, body: Text, width: int) -> Iterator[Text]:
    """A message on several lines; where little room is left beside the rest, the fields stand below."""
    room, indent = width - head.cell_len, head.cell_len
    lines = page.wrapped(body, room)
    if room < min(body.cell_len, ENOUGH):
        indent = BELOW
        lines = [Text(), *page.wrapped(body, width - indent)]
    for at, line in enumerate(lines):
        yield Text.assemble(head if at == 0 else " " * indent, line)


def frame_tree(page: Page, frame: Frame, message: CmMessage, layers: Iterable[LayerDetail], *, show_hex: bool) -> Tree:
    """All layers of a frame; with `show_hex`, where in its layer each field lies, and its bytes."""
    head = Text.assemble(
        (f"frame {frame.number}  {message.type}", style.HEAD),
        f"  {page.calendar.full(frame.time, 9)}  {page.clean(_ends(page, message))}",
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
