"""The type checker knows the fields of a message: a misspelt one is an error."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

USE = """\
from ibcmtool.messages import Rej, Req
from ibcmtool.model import CmMessage, Connection


def reason(message: CmMessage) -> int | None:
    return message.fields.{reason} if isinstance(message.fields, Rej) else None


def retries(connection: Connection) -> int | None:
    return connection.request.{retries} if isinstance(connection.request, Req) else None
"""


@pytest.mark.parametrize(
    ("names", "errors"),
    [
        ({"reason": "reason", "retries": "max_cm_retries"}, []),
        ({"reason": "reasn", "retries": "max_cm_retry"}, ['"Rej" has no attribute "reasn"', '"Req" has no attribute']),
    ],
)
def test_a_misspelt_field_fails_mypy(names: dict[str, str], errors: list[str], root: Path, tmp_path: Path) -> None:
    pytest.importorskip("mypy")
    arguments = ["--config-file=", "--strict", "--cache-dir", str(tmp_path), "-c", USE.format(**names)]
    done = subprocess.run([sys.executable, "-m", "mypy", *arguments], cwd=root, capture_output=True, text=True)
    assert done.returncode == bool(errors)
    assert all(error in done.stdout for error in errors)
