"""Captures without times: what rests on times is left out, everything else is said as before."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ibcmtool.cli import app
from ibcmtool.engine.files import analyze
from ibcmtool.rules.timeless import CODES, FAMILIES
from ibcmtool.sources.files import ScanRequest, open_capture

CAPTURES = sorted((Path(__file__).resolve().parents[2] / "captures").glob("*/*.pcap*"))


def without_times(path: Path, out: Path, step: int) -> Path:
    """The same frames as simple packet blocks (step 0), or as text2pcap stamps them: `step` ns apart."""
    with open_capture(str(path), 0) as capture:
        frames = list(capture.scan(ScanRequest(everything=True)))
    blocks = [struct.pack("<IIIHHqI", 0x0A0D0D0A, 28, 0x1A2B3C4D, 1, 0, -1, 28)]
    blocks.append(struct.pack("<IIHHI4xI", 1, 24, frames[0].link_type, 0, 0, 24))
    for number, frame in enumerate(frames, 1):
        data = frame.data + bytes(-len(frame.data) % 4)
        if step:
            ticks = 1_700_000_000_000_000 + number * step // 1000
            body = struct.pack("<IIIII", 0, ticks >> 32, ticks & 0xFFFFFFFF, len(frame.data), frame.wire_length) + data
        else:
            body = struct.pack("<I", len(frame.data)) + data
        length = struct.pack("<I", len(body) + 12)
        blocks.append(struct.pack("<I", 6 if step else 3) + length + body + length)
    out.write_bytes(b"".join(blocks))
    return out


@pytest.mark.parametrize("path", CAPTURES, ids=lambda path: path.name)
@pytest.mark.parametrize("step", [0, 1000])
def test_nothing_rests_on_times(path: Path, step: int, tmp_path: Path) -> None:
    out = without_times(path, tmp_path / path.name, step)
    timed, bare = analyze([str(path)]), analyze([str(out)])
    (info,) = bare.inputs
    if info.frames < 3 and step:
        return
    assert info.timeless
    assert not timed.inputs[0].timeless
    assert info.cm_messages == timed.inputs[0].cm_messages
    codes = {finding.code for finding in bare.findings}
    assert not {code for code in codes if code[0] in FAMILIES or code in CODES}


def test_what_needs_no_times_is_said(tmp_path: Path) -> None:
    """A family is not silent just because times are missing."""
    kept = set()
    for path in CAPTURES:
        out = without_times(path, tmp_path / path.name, 0)
        kept |= {finding.code for finding in analyze([str(out)]).findings}
    assert kept >= {"C02", "F16", "S02", "S09", "X01"}


def test_the_report_says_it(tmp_path: Path) -> None:
    out = without_times(CAPTURES[0], tmp_path / "bare.pcapng", 0)
    runner = CliRunner()
    text = " ".join(runner.invoke(app, ["analyze", str(out)]).stdout.split())
    assert "its frames have no times of their own: nothing is concluded from times" in text
    assert '"timeless": true' in runner.invoke(app, ["analyze", "--format", "json", str(out)]).stdout
    assert '"timeless"' not in runner.invoke(app, ["analyze", "--format", "json", str(CAPTURES[0])]).stdout
