"""A capture that is played again, at its own pace or another."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from sources.live.captured import running

from ibcmtool.sources.errors import SourceError
from ibcmtool.sources.live import source_of
from ibcmtool.sources.live.replay.source import Replay


def test_a_replay_keeps_the_pace(captures: Path) -> None:
    """71.9 seconds at a hundred times the speed: the second connection comes before the long pause, the third after."""
    with running(Replay("r", f"{captures / 'nvme_host_crash_stale.pcap'}@100")) as run:
        run.until(lambda: len(run.frames) == 6)
        time.sleep(0.2)
        assert len(run.frames) == 6
        run.until(lambda: len(run.frames) == 14)
    assert run.source.speed == 100


def test_a_replay_without_pauses(captures: Path) -> None:
    with running(Replay("r", f"{captures / 'nvme_host_crash_stale.pcap'}@0")) as run:
        run.until(lambda: not run.thread.is_alive())
        assert (len(run.frames), run.batches) == (14, 1)


def test_an_at_sign_may_belong_to_the_name(sample: bytes, tmp_path: Path) -> None:
    path = tmp_path / "host@rack.pcap"
    path.write_bytes(sample)
    assert Replay("r", str(path)).path == str(path)
    assert Replay("r", f"{path}@2").speed == 2


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("replay:/no/such.pcap", "no such file"),
        ("replay:x.pcap@fast", "'fast' is no speed"),
        ("replay:x.pcap@-1", "'-1' is no speed"),
    ],
)
def test_refusals(text: str, problem: str) -> None:
    with pytest.raises(SourceError, match=problem) as refused:
        source_of(text).open()
    assert "\n" not in str(refused.value)
    assert refused.value.hint
