"""`ibcmtool counters`: what ib_cm counts on each port."""

from __future__ import annotations

import json
import sys
import time
from collections import Counter
from collections.abc import Mapping
from typing import Annotated, Any

import typer
from rich.text import Text

from ibcmtool.cli.options import ColorOption, TextOrJson
from ibcmtool.cli.output import make_console, warn
from ibcmtool.reports import style
from ibcmtool.reports.page import Page
from ibcmtool.sources.live.counters import GROUPS, MESSAGES, Counts, all_counters
from ibcmtool.sources.live.ports import Port

WORDS = {"rx_msgs": "received", "rx_duplicates": "of them again", "tx_msgs": "sent", "tx_retries": "of them again"}


def counters(
    seconds: Annotated[
        float | None,
        typer.Argument(metavar="SECONDS", min=0.1, show_default=False, help="With --watch: between two lines (1)."),
    ] = None,
    watch: Annotated[
        bool, typer.Option("--watch", "-w", help="Tell again and again what came since the last time, until Ctrl-C.")
    ] = False,
    output_format: Annotated[
        TextOrJson, typer.Option("--format", "-f", help="Output format; json: with --watch an object a line.")
    ] = "text",
    color: ColorOption = "auto",
) -> None:
    """CM messages as the kernel counts them, on each port by type: received, sent, and how many of them again.

    Sent messages are counted when they are through, with their repetitions. Needs no privileges. Exit code: 0, or 2
    where nothing is counted.
    """
    if seconds is not None and not watch:
        raise typer.BadParameter("SECONDS goes with --watch", param_hint="SECONDS")
    before = all_counters()
    if not before:
        warn(
            "no counters of CM messages below /sys/class/infiniband: ib_cm is not loaded (modprobe ib_cm), the kernel"
            " is of before 2019 (then look in /sys/class/infiniband_cm), or this host has no RDMA device"
        )
        raise typer.Exit(2)
    page = Page(make_console(color))
    if not watch:
        if output_format == "json":
            print(json.dumps(_object(before), indent=2))
        else:
            _table(page, before)
        return
    while True:
        time.sleep(seconds or 1.0)
        now = all_counters()
        grown = {port: counts - before.get(port, Counter()) for port, counts in now.items()}
        before = now
        if output_format == "json":
            print(json.dumps({"time": f"{time.time():.3f}", **_object(grown)}))
        else:
            _lines(page, grown)
        sys.stdout.flush()


def _object(counted: Mapping[Port, Counts]) -> dict[str, Any]:
    return {
        "schema": "ibcmtool.counters/1",
        "ports": [
            {
                "device": port.device,
                "port": port.number,
                **{group: {name: counts[group, name] for name in MESSAGES.values()} for group in GROUPS},
            }
            for port, counts in counted.items()
        ],
    }


def _table(page: Page, counted: Mapping[Port, Counts]) -> None:
    widths = {group: max(len(WORDS[group]), 9) for group in GROUPS}
    for index, (port, counts) in enumerate(counted.items()):
        if index:
            page.write()
        name = max(len(port.name), 8)
        heads = "".join(f"  {WORDS[group]:>{width}}" for group, width in widths.items())
        page.write(Text(f"{port.name:<{name}}{heads}", style.HEAD))
        for message in MESSAGES.values():
            cells = [f"  {counts[group, message]:>{width},}" for group, width in widths.items()]
            quiet = not any(counts[group, message] for group in GROUPS)
            page.write(Text(f"{message:<{name}}{''.join(cells)}", style.QUIET if quiet else ""))
    page.flush()


def _lines(page: Page, grown: Mapping[Port, Counts]) -> None:
    now = time.strftime("%H:%M:%S")
    for port, counts in grown.items():
        parts = []
        for group in GROUPS:
            each = [f"{counts[group, name]:,} {name}" for name in MESSAGES.values() if counts[group, name]]
            if each:
                parts.append(f"{WORDS[group]} {', '.join(each)}")
        page.write(f"{now}  {port.name}  {'; '.join(parts) or 'nothing'}")
    page.flush()
