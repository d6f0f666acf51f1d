"""The sheet that a report is written on: its width, its signs, its time zone, and text made safe for it.

A terminal has a width: lines are wrapped and columns chosen to fit it. Anything else (a pipe, a file) has none: every
line stays whole and no text is shortened, so that `grep` and a mail show all of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from rich.cells import cell_len
from rich.console import COLOR_SYSTEMS, Console
from rich.text import Text

from ibcmtool.reports import style
from ibcmtool.reports.calendar import Calendar, Zone

NARROWEST = 72  # below this the terminal folds the lines itself
PROSE = 120  # sentences are wrapped here even on wider pages: nobody reads a line of 200 letters
WIDEST = 1000  # a console wider than this stands for "no width"

Piece = tuple[str, str]  # a text and its style
Pieces = Sequence[Piece]  # a line


class Page:
    """A console with the decisions that all reports share."""

    def __init__(self, console: Console, zone: Zone = "utc") -> None:
        self.console = console
        self.calendar = Calendar(zone)
        self.ascii = console.options.ascii_only
        self.glyphs = style.ASCII if self.ascii else style.UNICODE
        terminal = console.is_terminal or console.file.isatty()  # the former is False on a terminal without colour
        self.width: int | None = max(console.width, NARROWEST) if terminal and console.width < WIDEST else None
        self._color_system = console.color_system
        self._codes: dict[str, tuple[str, str]] = {}  # of a style: what turns it on and off
        self._pending: list[Text] = []

    def clean(self, text: str) -> str:
        """Text from anywhere, made printable: control characters (which could steer the terminal) become escapes."""
        if self.ascii:
            text = text.translate(style.TRANSLITERATION)
            if not text.isascii():
                text = text.encode("ascii", "replace").decode("ascii")
        if text.isprintable():
            return text
        text = text.replace("\n", " ")
        return "".join(one if one.isprintable() else one.encode("unicode_escape").decode("ascii") for one in text)

    def text(self, text: str, name: str = "") -> Text:
        """Clean text in one style."""
        return Text(self.clean(text), style=name)

    def write(self, line: str | Text = "") -> None:
        """One line, never folded or cut. Lines are handed to the console in blocks."""
        line = line if isinstance(line, Text) else self.text(line)
        line.rstrip()
        self._pending.append(line)
        if len(self._pending) >= 500:
            self.flush()

    def write_pieces(self, pieces: Pieces) -> None:
        """One line, never folded or cut; past Rich, which would take ten times as long as it takes to make the line."""
        if self._pending:
            self.flush()
        if self._color_system is None:
            line = "".join([text for text, _ in pieces]).rstrip()
        else:
            *most, (text, name) = pieces
            line = "".join([*(self._coloured(*piece) for piece in most), self._coloured(text.rstrip(), name)])
        self.console.file.write(line + "\n")

    def _coloured(self, text: str, name: str) -> str:
        if not name or not text:
            return text
        codes = self._codes.get(name)
        if codes is None:
            assert self._color_system is not None
            style = self.console.get_style(name)
            style = style.without_color if self.console.no_color else style
            before, _, after = style.render("\0", color_system=COLOR_SYSTEMS[self._color_system]).partition("\0")
            codes = self._codes[name] = before, after
        return f"{codes[0]}{text}{codes[1]}"

    def write_lines(self, lines: Iterable[Text]) -> None:
        """Lines, each as `write` does it."""
        for line in lines:
            self.write(line)

    def write_sections(self, *sections: Iterable[Text]) -> None:
        """Sections, and a blank line after each that has lines and does not end in one."""
        for section in sections:
            last = None
            for line in section:
                self.write(line)
                last = line
            if last is not None and last.plain:
                self.write()

    def flush(self) -> None:
        """Everything written so far reaches the console."""
        if self._pending:
            block, self._pending = Text("\n").join(self._pending), []
            self.console.print(block, soft_wrap=True, highlight=False)
        self.console.file.flush()

    def wrapped(self, text: Text, width: int | None) -> list[Text]:
        """The text in lines of at most `width` cells; one line without a width."""
        if width is None or text.cell_len <= width:
            return [text]
        lines = list(text.wrap(self.console, max(width, 1)))
        for line in lines:
            line.rstrip()
        return lines

    def hanging(self, head: Text, body: Text, *, indent: int | None = None) -> Iterator[Text]:
        """`body` after `head`, its further lines indented by `indent` (default: the length of the head)."""
        indent = head.cell_len if indent is None else indent
        room = None if self.width is None else min(self.width, PROSE) - max(indent, head.cell_len)
        for at, line in enumerate(self.wrapped(body, room)):
            yield Text.assemble(head if at == 0 else " " * indent, line)

    def remark(self, text: str, name: str = style.QUIET, indent: str = "") -> Iterator[Text]:
        """A sentence about what stands above it."""
        return self.hanging(Text(indent), self.text(text, name))

    def filled(self, pieces: Sequence[str], room: int | None, separator: str = ",") -> list[str]:
        """Pieces and their separators in as few lines as the room allows; only what is too long is broken."""
        lines: list[str] = []
        for at, text in enumerate(pieces):
            piece = self.clean(text) + (separator if at < len(pieces) - 1 else "")
            for token in [piece] if room is None or cell_len(piece) <= room else piece.split():
                if lines and (room is None or cell_len(lines[-1]) + 1 + cell_len(token) <= room):
                    lines[-1] += " " + token
                else:
                    lines.append(token)
        return [part.plain for line in lines for part in self.wrapped(Text(line), room)]

    def listing(self, head: Text, pieces: Sequence[str], separator: str = ",") -> Iterator[Text]:
        """Pieces after `head`, further lines indented by its length."""
        room = None if self.width is None else min(self.width, PROSE) - head.cell_len
        for at, line in enumerate(self.filled(pieces, room, separator)):
            yield Text.assemble(head if at == 0 else " " * head.cell_len, line)

    def elided(self, text: Text, width: int) -> Text:
        """The text cut to `width` cells, with a sign that it was."""
        if text.cell_len <= width:
            return text
        sign = self.glyphs.ellipsis
        cut = text.copy()
        cut.truncate(max(width - len(sign), 0))
        cut.rstrip()
        return cut.append(sign)
