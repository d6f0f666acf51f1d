"""Output in large pieces loses nothing, and keeps nobody waiting at a terminal."""

from __future__ import annotations

import io

import pytest

from ibcmtool.reports.pieces import in_pieces


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
    with in_pieces(out) as write:
        for number in range(100):
            write(f"{number:02d}\n")
    assert out.flushed == "".join(f"{number:02d}\n" for number in range(100))
    assert len(out.sizes) <= 10
    assert max(out.sizes) < 100


def test_a_terminal_gets_each_text_at_once() -> None:
    out = Recorder(terminal=True)
    with in_pieces(out) as write:
        write("one\n")
        assert out.flushed == "one\n"
        write("two\n")
        assert out.flushed == "one\ntwo\n"


def test_what_was_written_before_an_interrupt_comes_out() -> None:
    out = Recorder()
    with pytest.raises(KeyboardInterrupt), in_pieces(out) as write:
        write("one\n")
        raise KeyboardInterrupt
    assert out.flushed == "one\n"
