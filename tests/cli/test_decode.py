"""`decode`: what the golden runs do not show, which see neither a terminal nor a broken packet."""

from __future__ import annotations

import io
import json
import re
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from rich.text import Text
from sinks import settings

from ibcmtool.engine.sink import Received
from ibcmtool.packets import CmMessage
from ibcmtool.reports.decode_text import message_pieces
from ibcmtool.reports.page import Page
from ibcmtool.reports.sink import make
from ibcmtool.sources.files import open_capture
from ibcmtool.wire.decode import Decoder

Run = Callable[..., Any]


def messages_of(path: Path) -> list[Received]:
    decoder = Decoder()
    with open_capture(str(path), 0) as capture:
        pairs = [(frame, decoder(frame)) for frame in capture]
    return [Received(frame.number, frame, item) for frame, item in pairs if isinstance(item, CmMessage)]


def written(path: Path, console: Console) -> str:
    with make("decode", "text", settings(console)) as sink:
        for message in messages_of(path):
            sink.received(message)
    return console.file.getvalue()  # type: ignore[attr-defined, no-any-return]


def lines_at(width: int, path: Path) -> list[str]:
    return written(path, Console(file=io.StringIO(), width=width, force_terminal=True, color_system=None)).splitlines()


@pytest.mark.parametrize("width", [80, 200])
def test_colour_is_that_of_rich(width: int, captures: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lines that fit are not made by Rich, those that must be folded are."""
    monkeypatch.delenv("NO_COLOR", raising=False)
    path = captures / "no_listener_rej.pcap"
    console = Console(file=io.StringIO(), width=width, force_terminal=True, color_system="standard", highlight=False)
    lines = written(path, console).splitlines()
    assert [re.sub(r"\x1b\[[0-9;]*m", "", line).rstrip() for line in lines] == lines_at(width, path)
    page = Page(Console(file=io.StringIO(), width=200, force_terminal=True, color_system="standard", highlight=False))
    for message in messages_of(path):
        assert isinstance(message.item, CmMessage)
        head, body = message_pieces(page, message.item)
        page.write(Text.assemble(*head, *body))
    page.flush()
    assert (lines == page.console.file.getvalue().splitlines()) is (width == 200)  # type: ignore[attr-defined]


@pytest.mark.parametrize("width", [80, 100, 120, 200])
@pytest.mark.parametrize("name", ["no_listener_rej", "rping_ipv6", "udaddy_sidr"])
def test_lines_fit_the_terminal(name: str, width: int, captures: Path) -> None:
    lines = lines_at(width, captures / f"{name}.pcap")
    assert max(map(len, lines)) <= width
    assert all(line == line.rstrip() for line in lines)


def test_fields_stand_below_where_the_terminal_is_narrow(captures: Path) -> None:
    wide = lines_at(200, captures / "no_listener_rej.pcap")
    narrow = lines_at(80, captures / "no_listener_rej.pcap")
    assert len(wide) == 2
    assert "reason 8 invalid service ID" in wide[1]
    assert narrow[-1] == "        reason 8 invalid service ID"


def test_wrong_icrc_is_reported(captures: Path, tmp_path: Path, run: Run) -> None:
    data = bytearray((captures / "no_listener_rej.pcap").read_bytes())
    data[40 + 200] ^= 1
    path = tmp_path / "flipped.pcap"
    path.write_bytes(data)
    first, second = run("decode", path).out.splitlines()
    assert first.endswith("ICRC wrong")
    assert not second.endswith("ICRC wrong")
    assert [json.loads(line)["icrc_ok"] for line in run("decode", path, "-f", "jsonl").out.splitlines()] == [
        False,
        True,
    ]
    assert "[wrong, expected 0x" in run("decode", path, "--frame", "1").out


def test_frame_of_a_capture_that_was_cut(captures: Path, tmp_path: Path, run: Run) -> None:
    whole = (captures / "no_listener_rej.pcap").read_bytes()
    path = tmp_path / "snapped.pcap"
    path.write_bytes(whole[:24] + struct.pack("<IIII", 1, 0, 200, 322) + whole[40 : 40 + 200])
    shown = run("decode", path, "--frame", "1").out
    assert "cut here, 114 bytes into the layer: " in shown
    assert "cut here: 200 of 322 bytes of the frame were captured" in shown
    assert run("decode", path).out.rstrip().endswith("cut short")


def test_frames_before_the_damage_can_be_shown(at_workplace: Path, run: Run) -> None:
    result = run("decode", "bad/cut.pcap", "--frame", "2")
    assert result.code == 0
    assert result.out.startswith("frame 2  REP")
