"""The registry of output formats: every entry makes a sink, and no other format can be asked for."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest
from sinks import emit_all, settings

from ibcmtool.analysis import Analysis
from ibcmtool.model import Connection
from ibcmtool.reports import sink
from ibcmtool.reports.sink import FORMATS, Settings, Sink, UnknownFormatError, choices, make

ENTRIES = [(shown, word) for shown, formats in FORMATS.items() for word in formats]


@pytest.mark.parametrize(("shown", "word"), ENTRIES)
def test_every_entry_makes_a_sink(shown: str, word: str) -> None:
    made = make(shown, word, settings())
    assert isinstance(made, Sink)
    made.abort()


@pytest.mark.parametrize("shown", FORMATS)
def test_no_other_format_makes_one(shown: str) -> None:
    with pytest.raises(UnknownFormatError, match=f"{shown} has no format 'csv', but text"):
        make(shown, "csv", settings())


class Csv(Sink):
    """A format of which no command knows anything."""

    def __init__(self, settings: Settings) -> None:
        self._out = settings.out

    def connection(self, connection: Connection) -> None:
        self._out.write(f"{connection.id},{connection.outcome}\n")


def test_a_new_format_is_a_class_and_a_line(scene: Analysis, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(FORMATS["analyze"], "csv", "csv:Csv")
    modules = {"ibcmtool.reports.csv": SimpleNamespace(Csv=Csv)}
    monkeypatch.setattr(sink, "import_module", modules.__getitem__)
    assert choices("analyze", "analyze --by") == ["text", "json", "jsonl", "csv"]
    made = settings()
    emit_all(scene, make("analyze", "csv", made))
    assert made.out.getvalue() == "".join(f"{one.id},{one.outcome}\n" for one in scene.connections)  # type: ignore


def test_a_run_that_fails_writes_no_end() -> None:
    made = settings()
    with pytest.raises(KeyboardInterrupt), make("analyze", "json", made):
        raise KeyboardInterrupt
    assert made.out.getvalue() == ""  # type: ignore[attr-defined]
    with make("analyze", "json", made):
        pass
    assert json.loads(made.out.getvalue())["connections"] == []  # type: ignore[attr-defined]
