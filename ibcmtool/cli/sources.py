"""`ibcmtool sources`: what this host offers to `ibcmtool live`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import typer

from ibcmtool.cli.options import ColorOption
from ibcmtool.cli.output import make_console

if TYPE_CHECKING:
    from ibcmtool.sources.live.source import Offer


def sources(
    output_format: Annotated[Literal["text", "json"], typer.Option("--format", "-f", help="Output format.")] = "text",
    color: ColorOption = "auto",
) -> None:
    """What this host offers to `ibcmtool live`: each source with yes or no, the reason, and the command to type.

    Needs no privileges, and changes nothing. Exit code: 0.
    """
    from ibcmtool.sources.live.offers import offers

    found = offers()
    if output_format == "json":
        import json

        written = {"schema": "ibcmtool.sources/1", "sources": [offer._asdict() for offer in found]}
        print(json.dumps(written, indent=2))
    else:
        _show(found, color)


def _show(found: list[Offer], color: Literal["auto", "always", "never"]) -> None:
    from rich.text import Text

    from ibcmtool.reports import style
    from ibcmtool.reports.page import Page

    page = Page(make_console(color))
    width = max(len(offer.source) for offer in found)
    for offer in found:
        answer = ("yes  ", style.GOOD) if offer.available else ("no   ", style.BAD)
        head = Text.assemble(answer, (f"{page.clean(offer.source):<{width}}  ", style.HEAD))
        for line in page.hanging(head, page.text(offer.reason)):
            page.write(line)
        if offer.command:
            page.write(
                Text.assemble(" " * head.cell_len, page.text(offer.command, "" if offer.available else style.QUIET))
            )
    page.flush()
