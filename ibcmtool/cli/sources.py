"""`ibcmtool sources`: what this host offers to `ibcmtool live`."""

from __future__ import annotations

import json
from typing import Annotated

import typer
from rich.text import Text

from ibcmtool.cli.options import ColorChoice, ColorOption, TextOrJson
from ibcmtool.cli.output import make_console
from ibcmtool.reports import style
from ibcmtool.reports.page import Page
from ibcmtool.sources.live.offers import offers
from ibcmtool.sources.live.source import Offer


def sources(
    output_format: Annotated[TextOrJson, typer.Option("--format", "-f", help="Output format.")] = "text",
    color: ColorOption = "auto",
) -> None:
    """What this host offers to `ibcmtool live`: each source with yes or no, the reason, and the command to type.

    Needs no privileges, and changes nothing. Exit code: 0.
    """
    found = offers()
    if output_format == "json":
        written = {"schema": "ibcmtool.sources/1", "sources": [offer._asdict() for offer in found]}
        print(json.dumps(written, indent=2))
    else:
        _show(found, color)


def _show(found: list[Offer], color: ColorChoice) -> None:
    page = Page(make_console(color))
    width = max(len(offer.source) for offer in found)
    for offer in found:
        answer = ("yes  ", style.GOOD) if offer.available else ("no   ", style.BAD)
        head = Text.assemble(answer, (f"{page.clean(offer.source):<{width}}  ", style.HEAD))
        for line in page.hanging(head, page.text(offer.reason)):
            page.write(line)
        if offer.command:
            command = page.text(offer.command, "" if offer.available else style.QUIET)
            page.write(Text.assemble(" " * head.cell_len, command))
    page.flush()
