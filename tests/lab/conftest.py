"""The machines of the lab, booted once for all its tests, and the table of what was seen."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from lab.lab import Lab
from lab.watch import Watch

HERE = Path(__file__).parent


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """The lab takes minutes and root, and there is one of it: scripts/lab runs it, without workers."""
    ours = [item for item in items if HERE in item.path.parents]
    for item in ours:
        item.add_marker(pytest.mark.lab)
    if os.environ.get("LAB") != "1" or "PYTEST_XDIST_WORKER" in os.environ:
        items[:] = [item for item in items if item not in ours]
        config.hook.pytest_deselected(items=ours)


@pytest.fixture(scope="session")
def lab() -> Iterator[Lab]:
    if os.geteuid() != 0:
        pytest.fail("the lab needs root, to make its image")
    if shutil.which("setpriv") is None:
        pytest.fail("setpriv (util-linux) is not installed")
    with Lab() as lab:
        yield lab


class Report:
    """Rows of a table in Markdown, written when the tests are over."""

    def __init__(self) -> None:
        self.rows: list[str] = []

    def add(self, scenario: str, watch: Watch) -> None:
        again = sum(event["retransmission_of"] is not None for event in watch.events)
        outcomes = ", ".join(sorted({connection["outcome"] for connection in watch.connections}))
        codes = ", ".join(watch.codes()) or "none"
        self.rows.append(f"| {scenario} | {len(watch.wire)} | {len(watch.seen)} | {again} | {outcomes} | {codes} |")

    def text(self) -> str:
        head = "| scenario | CM frames on the wire | by the source | sent again | outcomes | findings |"
        return "\n".join([head, "| --- | --- | --- | --- | --- | --- |", *self.rows]) + "\n"


@pytest.fixture(scope="session")
def report(lab: Lab) -> Iterator[Callable[[str, Watch], None]]:
    rows = Report()
    yield rows.add
    path = lab.folder / "report.md"
    path.write_text(rows.text())
    print(f"\n{rows.text()}\n({path})")
