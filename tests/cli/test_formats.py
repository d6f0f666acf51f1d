"""--format against the registry of output formats: what is not registered cannot be asked for."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ibcmtool.reports.sink import FORMATS, choices

COMMANDS = sorted({shown.split()[0] for shown in FORMATS} - {"timeline"})  # which has one format, and no option


@pytest.mark.parametrize("command", COMMANDS)
def test_help_and_usage_errors_name_the_formats_of_the_registry(
    command: str, run: Callable[..., Any], at_workplace: Path
) -> None:
    words = choices(*(shown for shown in FORMATS if shown.split()[0] == command))
    assert f"<{'|'.join(words)}>" in run(command, "--help").out
    result = run(command, "captures/rping.pcap", "--format", "csv")
    assert (result.code, result.out) == (2, "")
    assert "'csv' is not one of " + ", ".join(map(repr, words)) in " ".join(result.err.replace("│", " ").split())


def test_a_format_that_only_one_view_has_is_refused_for_the_other(
    run: Callable[..., Any], at_workplace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(FORMATS["decode --frame"], "csv", "csv:Csv")
    result = run("decode", "captures/rping.pcap", "--format", "csv")
    assert (result.code, result.out) == (2, "")
    assert "decode has no format 'csv', but text, json, jsonl" in " ".join(result.err.replace("│", " ").split())
