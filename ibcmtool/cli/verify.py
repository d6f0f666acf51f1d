"""`ibcmtool verify`: our decode against Wireshark's."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from ibcmtool import formatting
from ibcmtool.cli.options import ColorOption, FileArgument, QuietOption
from ibcmtool.cli.output import make_console, warn, warn_of_inputs
from ibcmtool.cli.progress import reading
from ibcmtool.reports import style
from ibcmtool.reports.page import Page

if TYPE_CHECKING:
    from ibcmtool.verify import Comparison


def verify(
    file: FileArgument,
    limit: Annotated[
        int, typer.Option("--limit", min=0, metavar="N", help="List at most N differences; 0 lists all.")
    ] = 50,
    color: ColorOption = "auto",
    quiet: QuietOption = False,
) -> None:
    """Our decode of a capture against tshark's, field by field.

    Compared are REQ, REP, RTU, REJ, DREQ and DREP, the MAD header, and what is below them. Known faults of Wireshark
    are explained, not counted. Exit code: 0 no difference, 1 differences, 2 the capture could not be read, or not to
    its end, or there is no tshark.
    """
    from ibcmtool.sources.files import open_capture
    from ibcmtool.verify import TsharkError
    from ibcmtool.verify import verify as compare_files

    with _as_file(file) as path, open_capture(path, 0) as capture:
        try:
            with reading(quiet) as progress:
                result = compare_files(path, capture, progress)
        except TsharkError as error:
            warn(str(error))
            raise typer.Exit(2) from None
    _report(Page(make_console(color)), result, limit)
    if warn_of_inputs([capture.info]):
        raise typer.Exit(2)
    raise typer.Exit(1 if result.differences else 0)


@contextmanager
def _as_file(file: Path) -> Iterator[str]:
    """A path that can be read twice: standard input goes through a temporary file."""
    if str(file) != "-":
        yield str(file)
        return
    with NamedTemporaryFile(prefix="ibcmtool-", suffix=".pcap") as copy:
        shutil.copyfileobj(sys.stdin.buffer, copy)
        copy.flush()
        yield copy.name


def _report(page: Page, result: Comparison, limit: int) -> None:
    shown = result.differences[: limit or None]
    rows = [("frame", "field", "ibcmtool", "Wireshark")]
    rows += [(str(one.frame), one.field, one.ours, one.wireshark) for one in shown]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    if shown:
        for row in rows:
            cells = [f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)]
            page.write(page.text("  ".join(cells).rstrip(), style.HEAD if row is rows[0] else ""))
        hidden = len(result.differences) - len(shown)
        if hidden:
            page.write(page.text(f"and {hidden:,} more: --limit 0 lists them all", style.QUIET))
        page.write()
    lines = [
        page.text(f"Known fault of Wireshark, {formatting.count(count, 'field')}: {fault}.", style.QUIET)
        for fault, count in result.faults.most_common()
    ]
    different = formatting.count(len(result.differences), "difference") if result.differences else "no difference"
    sentence = (
        f"{formatting.count(result.frames, 'frame')}, {formatting.count(result.fields, 'field')} compared with tshark "
        f"{result.tshark_version}: {different}, "
        f"{formatting.count(result.faults.total(), 'known fault')} of Wireshark explained."
    )
    lines.append(page.text(sentence, style.BAD if result.differences else style.GOOD))
    for line in lines:
        for wrapped in page.hanging(Text(), line, indent=2):
            page.write(wrapped)
    page.flush()
