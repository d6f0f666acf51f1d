"""What is registered as a live source is all that there is, and can be listed without loading it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from ibcmtool.sources import live
from ibcmtool.sources.errors import SourceError
from ibcmtool.sources.live import SOURCES, name_of, source_of, usage

SIX = [
    "kernel",
    "umad[:DEV[:PORT]]",
    "iface:NAME",
    "- (a capture on standard input)",
    "follow:FILE",
    "replay:FILE[@SPEED]",
]
RUN = "import sys; from ibcmtool.cli import main; sys.argv = {!r}; main(); print(*sys.modules, file=sys.__stderr__)"


def loaded(root: Path, *arguments: str) -> set[str]:
    """Modules of a command's process when it ends."""
    code = RUN.format(["ibcmtool", *arguments])
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=60, check=True)
    return set(done.stderr.splitlines()[-1].split())


def test_every_package_is_registered() -> None:
    packages = {path.parent.name for path in Path(live.__file__).parent.glob("*/__init__.py")}
    assert packages == {kind.made_by.partition(".")[0] for kind in SOURCES.values()}


def test_names_are_told_apart() -> None:
    assert len({name_of(source) for source in SOURCES}) == len(SOURCES)
    assert [name_of(source) for source in SIX] == ["kernel", "umad", "iface", "-", "follow", "replay"]
    assert [name_of(text) for text in ("umad:mlx5_0:1", "iface:a b", "replay:x@2")] == ["umad", "iface", "replay"]


def test_usage() -> None:
    assert set(SIX) <= SOURCES.keys()
    assert usage(SIX) == (
        "kernel, umad[:DEV[:PORT]], iface:NAME, - (a capture on standard input), follow:FILE or replay:FILE[@SPEED]"
    )


@pytest.mark.parametrize("text", ["bpftrace", "", ":", "kern", "kernel2:x"])
def test_a_name_that_is_none_gets_the_usage(text: str) -> None:
    with pytest.raises(SourceError) as refused:
        source_of(text)
    assert str(refused.value) == f"{text}: is no live source; name one of {usage(SOURCES)}"
    assert "\n" not in str(refused.value)


def test_a_source_has_the_name_that_it_was_given() -> None:
    for text in ("kernel", "umad:mlx5_0:1", "iface:any", "-", "follow:x.pcap", "replay:x.pcap@2"):
        assert source_of(text).name == text


def test_help_loads_no_source(root: Path) -> None:
    for arguments in ([], ["live"]):
        modules = loaded(root, *arguments, "--help")
        assert "ibcmtool.sources.live" in modules
        assert modules.isdisjoint(
            f"ibcmtool.sources.live.{kind.made_by.partition('.')[0]}" for kind in SOURCES.values()
        )
        assert "ibcmtool.sources.files" not in modules
