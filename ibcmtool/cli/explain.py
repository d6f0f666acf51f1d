"""`ibcmtool explain`: what a code or a word means, and what to do about it."""

from __future__ import annotations

import textwrap
from typing import Annotated

import typer
from rich.text import Text

from ibcmtool import explanations
from ibcmtool.cli.options import ColorOption
from ibcmtool.cli.output import make_console, warn
from ibcmtool.explanations import Explanation
from ibcmtool.reports import style
from ibcmtool.reports.page import Page

READABLE = 100  # columns: prose in longer lines is hard to read


def _topics() -> list[str]:
    return ["all", *explanations.GROUPS, *explanations.topics()]


def explain(
    topic: Annotated[
        list[str],
        typer.Argument(
            metavar="TOPIC",
            show_default=False,
            autocompletion=_topics,
            help="A finding (S02), a code (rej:10, apr:4, sidr:1), a state, an outcome or a term; all, rej, apr, "
            "sidr, states, outcomes and terms are lists.",
        ),
    ],
    color: ColorOption = "auto",
) -> None:
    """What a finding, a REJ reason, a status, a state or a term means, what it rests on, and what to do.

    Exit code: 0, or 2 when the topic is unknown.
    """
    wanted = " ".join(topic)
    page = Page(make_console(color))
    members = explanations.group(wanted)
    if members:
        _list(page, members)
        return
    found = explanations.find(wanted)
    if not found:
        near = explanations.similar(wanted)
        hint = f"did you mean {' or '.join(near)}?" if near else "ibcmtool explain all lists the findings"
        warn(f"nothing is known under {wanted!r}; {hint}")
        raise typer.Exit(2)
    for index, entry in enumerate(found):
        if index:
            page.write()
        _show(page, entry)
    page.flush()


def _show(page: Page, entry: Explanation) -> None:
    page.write(Text.assemble((entry.topic, style.HEAD), "  ", entry.title, (f"  ({entry.kind})", style.QUIET)))
    for name, paragraph in entry.sections:
        page.write()
        page.write(Text(name, style.HEAD))
        for line in textwrap.wrap(paragraph, min(page.width or READABLE, READABLE) - 2):
            page.write(f"  {line}")


def _list(page: Page, members: list[Explanation]) -> None:
    width = max(len(entry.topic) for entry in members)
    for entry in members:
        line = Text.assemble((f"{entry.topic:<{width}}  ", style.HEAD))
        severity = dict(entry.sections).get("Severity")
        if severity is not None:
            line.append(f"{severity:<7}  ", style.SEVERITY[severity])  # type: ignore[index]
        for wrapped in page.hanging(line, Text(entry.title)):
            page.write(wrapped)
    page.flush()
