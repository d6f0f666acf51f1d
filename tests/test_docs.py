"""The documentation against what it speaks of."""

from __future__ import annotations

import importlib.util
import io
import re
import shlex
from pathlib import Path

import pytest

from ibcmtool.sources.live import SOURCES


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


def test_the_table_of_live_sources_is_what_they_declare(root: Path, pytestconfig: pytest.Config) -> None:
    page = root / "docs" / "live.md"
    kinds = {source.partition(" ")[0]: kind for source, kind in SOURCES.items()}
    rows = [f"| `{usage}` | {kind.sees} | {kind.needs or '-'} |" for usage, kind in kinds.items()]
    head = "| source | what it sees | needs |\n| --- | --- | --- |\n"
    text = page.read_text(encoding="utf-8")
    before, _, rest = text.partition(head)
    listed = before + head + "\n".join(rows) + rest[rest.index("\n\n") :]
    if pytestconfig.getoption("--bless"):
        page.write_text(listed, encoding="utf-8")
    assert page.read_text(encoding="utf-8") == listed


def test_every_capture_has_a_row(root: Path) -> None:
    page = (root / "captures" / "README.md").read_text()
    rows = set(re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE))
    assert rows == {path.stem for path in (root / "captures" / "linux-rxe").glob("*.pcap")}


@pytest.mark.parametrize("page", ["README.md", "captures/README.md"])
def test_links_lead_somewhere(page: str, root: Path) -> None:
    text = (root / page).read_text()
    for target in re.findall(r"\]\((?!https?://|#)([^)#]+)", text):
        assert (root / page).parent.joinpath(target).exists(), target


def test_the_filter_in_the_readme_is_the_one_that_sources_suggests(root: Path) -> None:
    from ibcmtool.wire.bpf import TYPED

    assert TYPED in " ".join((root / "README.md").read_text().split())


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
        command = group if name.startswith("--") else group.get_command(None, name)  # type: ignore[attr-defined]
        known = {option for parameter in command.params for option in parameter.opts}
        assert {argument for argument in [name, *arguments] if argument.startswith("--")} <= known, line


def test_outputs_in_the_readme_are_real(root: Path, pytestconfig: pytest.Config) -> None:
    """Each block that begins with `$ ibcmtool` shows what a terminal of 100 columns shows."""
    page = root / "README.md"
    text = page.read_text(encoding="utf-8")
    shown = re.sub(r"```text\n\$ (ibcmtool .*)\n(?:.*\n)*?```", lambda block: _run(root, block[1]), text)
    assert shown.count("```text") >= 2
    if pytestconfig.getoption("--bless"):
        page.write_text(shown, encoding="utf-8")
    assert page.read_text(encoding="utf-8") == shown


def _run(root: Path, command: str) -> str:
    from rich.console import Console
    from sinks import report

    from ibcmtool.engine.files import analyze
    from ibcmtool.views.filters import Filter, apply

    _, name, capture, *options = shlex.split(command)
    analysis = analyze([str(root / capture)])
    analysis.inputs[0].path = capture
    out = io.StringIO()
    console = Console(file=out, width=100, force_terminal=True, color_system=None, highlight=False, markup=False)
    if name == "analyze":
        report("analyze", "text", analysis, console=console)
    else:
        report("timeline", "text", apply(Filter(connection=(int(options[1]),)), analysis), console=console)
    lines = re.sub(r"\x1b\[[0-9;]*m", "", out.getvalue()).splitlines()
    return "\n".join(["```text", f"$ {command}", *(line.rstrip() for line in lines), "```"]).replace("\n\n```", "\n```")
