"""The type checker knows the fields of a message: a misspelt one is an error."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

USE = """\
from ibcmtool.messages import Rej, Req
from ibcmtool.model import Connection
from ibcmtool.packets import CmMessage


def reason(message: CmMessage) -> int | None:
    return message.fields.reason if isinstance(message.fields, Rej) else None


def misspelt_reason(message: CmMessage) -> int | None:
    return message.fields.reasn if isinstance(message.fields, Rej) else None


def retries(connection: Connection) -> int | None:
    return connection.request.max_cm_retries if isinstance(connection.request, Req) else None


def misspelt_retries(connection: Connection) -> int | None:
    return connection.request.max_cm_retry if isinstance(connection.request, Req) else None
"""


def test_a_misspelt_field_fails_mypy(root: Path, tmp_path: Path) -> None:
    pytest.importorskip("mypy")
    arguments = ["--config-file=", "--strict", "--cache-dir", str(tmp_path), "-c", USE]
    done = subprocess.run([sys.executable, "-m", "mypy", *arguments], cwd=root, capture_output=True, text=True)
    errors = [line for line in done.stdout.splitlines() if ": error:" in line]
    assert len(errors) == 2, done.stdout
    assert '"Rej" has no attribute "reasn"' in errors[0]
    assert '"Req" has no attribute "max_cm_retry"' in errors[1]
