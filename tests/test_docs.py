"""The documentation against what it speaks of."""

from __future__ import annotations

import importlib.util
import re
import shlex
from pathlib import Path

import pytest


def test_rules_page_is_the_catalogue(root: Path, pytestconfig: pytest.Config) -> None:
    spec = importlib.util.spec_from_file_location("rules_page", root / "scripts" / "rules_page.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    written = root / "docs" / "rules.md"
    if pytestconfig.getoption("--bless"):
        written.write_text(module.page(), encoding="utf-8")
    assert written.read_text(encoding="utf-8") == module.page()


def test_every_capture_has_a_row(root: Path) -> None:
    page = (root / "captures" / "README.md").read_text()
    rows = set(re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE))
    assert rows == {path.stem for path in (root / "captures" / "linux-rxe").glob("*.pcap")}


@pytest.mark.parametrize("page", ["README.md", "captures/README.md"])
def test_links_lead_somewhere(page: str, root: Path) -> None:
    text = (root / page).read_text()
    for target in re.findall(r"\]\((?!https?://|#)([^)#]+)", text):
        assert (root / page).parent.joinpath(target).exists(), target


def test_commands_in_the_readme_are_understood(root: Path) -> None:
    """Each `ibcmtool ...` line of the README's code blocks names a command and options that exist."""
    from typer.main import get_command

    from ibcmtool.cli import app

    group = get_command(app)
    blocks = re.findall(r"```sh\n(.*?)```", (root / "README.md").read_text(), re.DOTALL)
    lines = [line for block in blocks for line in block.splitlines() if line.startswith("ibcmtool ")]
    assert len(lines) > 5
    for line in lines:
        name, *arguments = shlex.split(line, comments=True)[1:]
        command = group if name.startswith("--") else group.commands[name]  # type: ignore[attr-defined]
        known = {option for parameter in command.params for option in parameter.opts}
        assert {argument for argument in [name, *arguments] if argument.startswith("--")} <= known, line
