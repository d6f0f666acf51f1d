"""Which program a thread of the trace belongs to."""

from __future__ import annotations

from pathlib import Path

import pytest

from ibcmtool.sources.live.kernel.programs import Programs


@pytest.fixture
def proc(tmp_path: Path) -> Path:
    """nvmf_tgt (300) with a thread of another name (301); a kernel thread (48)."""
    for thread, name, group in ((300, "nvmf_tgt", 300), (301, "poller 1", 300), (48, "kworker/0:2", 48)):
        (tmp_path / str(thread)).mkdir()
        (tmp_path / str(thread) / "status").write_text(
            f"Name:\t{name}\nUmask:\t0022\nState:\tS\nTgid:\t{group}\nNgid:\t0\n"
        )
        (tmp_path / str(thread) / "comm").write_text(f"{name}\n")
    return tmp_path


@pytest.mark.parametrize(
    ("task", "thread", "named"),
    [
        ("nvmf_tgt", 300, "nvmf_tgt-300"),
        ("poller 1", 301, "nvmf_tgt-300"),  # people know the program
        ("kworker/0:2", 48, "kworker/0:2-48"),
        ("rping", 999, "rping-999"),  # has ended
        ("rping", 301, "rping-301"),  # another thread has its number here: this is a container, or it was reused
    ],
)
def test_names(proc: Path, task: str, thread: int, named: str) -> None:
    assert Programs(proc).name(task, thread) == named


def test_a_name_is_kept_for_a_moment(proc: Path) -> None:
    programs = Programs(proc)
    assert programs.name("poller 1", 301) == "nvmf_tgt-300"
    (proc / "301/status").unlink()
    assert programs.name("poller 1", 301) == "nvmf_tgt-300"


def test_many_threads(proc: Path) -> None:
    programs = Programs(proc)
    for thread in range(5000):
        programs.name("x", 10_000 + thread)
    assert len(programs._known) == 1000
