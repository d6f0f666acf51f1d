"""Output in large pieces loses nothing, and keeps nobody waiting at a terminal."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console
from sinks import settings

from ibcmtool.analysis import InputInfo
from ibcmtool.engine.sink import Received
from ibcmtool.packets import CmMessage
from ibcmtool.reports.json_document import Pieces
from ibcmtool.reports.sink import make
from ibcmtool.sources.files import ScanRequest, open_capture
from ibcmtool.wire.decode import Decoder


class Recorder(io.StringIO):
    """Counts what it is given."""

    def __init__(self, *, terminal: bool = False) -> None:
        super().__init__()
        self.terminal = terminal
        self.sizes: list[int] = []
        self.flushed = ""

    def isatty(self) -> bool:
        return self.terminal

    def write(self, text: str) -> int:
        self.sizes.append(len(text))
        return super().write(text)

    def flush(self) -> None:
        self.flushed = self.getvalue()


def test_many_texts_in_few_writes() -> None:
    out = Recorder()
    pieces = Pieces(out)
    for number in range(100):
        pieces.write(f"{number:02d}\n")
    pieces.flush()
    assert out.flushed == "".join(f"{number:02d}\n" for number in range(100))
    assert len(out.sizes) <= 10
    assert max(out.sizes) < 100


@pytest.mark.parametrize(("terminal", "at_once"), [(True, False), (False, True)])
def test_who_waits_gets_each_text_at_once(*, terminal: bool, at_once: bool) -> None:
    out = Recorder(terminal=terminal)
    pieces = Pieces(out, at_once=at_once)
    pieces.write("one\n")
    assert out.flushed == "one\n"
    pieces.write("two\n")
    assert out.flushed == "one\ntwo\n"


@pytest.mark.parametrize(("shown", "word"), [("analyze", "jsonl"), ("decode", "jsonl"), ("decode", "text")])
def test_what_was_written_before_an_interrupt_comes_out(shown: str, word: str, captures: Path) -> None:
    out = Recorder()
    console = Console(file=out, width=10_000)
    decoder = Decoder()
    with open_capture(str(captures / "rping.pcap"), 0) as capture:
        frames = list(capture.scan(ScanRequest()))
    with pytest.raises(KeyboardInterrupt), make(shown, word, settings(console, out=out)) as sink:
        for frame in frames:
            message = decoder(frame)
            assert isinstance(message, CmMessage)
            sink.received(Received(frame.number, frame, message))
        sink.input(InputInfo("rping.pcap"))
        raise KeyboardInterrupt
    assert len(out.flushed.splitlines()) == (1 if shown == "analyze" else 5)
    assert "summary" not in out.flushed
