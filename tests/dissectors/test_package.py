"""The package as a whole: the star import, and what loading one module costs."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

import dissectors


def run(code: str) -> list[str]:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded: list[str] = json.loads(done.stdout)
    return loaded


@pytest.mark.parametrize("name", dissectors.__all__)
def test_every_name_is_there(name: str) -> None:
    assert getattr(dissectors, name) is not None


def test_a_name_that_is_not_there() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'CM_REX'"):
        _ = dissectors.CM_REX


def test_the_messages_load_none_of_scapys_own_layers() -> None:
    loaded = run("import sys, json, dissectors.cm; print(json.dumps(sorted(sys.modules)))")
    assert "dissectors.transport" in loaded
    heavy = [name for name in loaded if name == "scapy.all" or name.startswith(("scapy.layers", "dissectors.enc"))]
    assert not heavy


def test_the_star_import_is_all_that_a_scapy_shell_needs() -> None:
    layers = run(
        """
import json
from scapy.all import IP, UDP, Ether
from dissectors import *
packet = Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02") / IP(src="10.0.0.1", dst="10.0.0.2") / UDP()
packet = packet / BTH() / DETH() / MAD() / CM_REQ(local_comm_id=1)
print(json.dumps([layer.__name__ for layer in Ether(bytes(packet)).layers()]))
"""
    )
    assert layers == ["Ether", "IP", "UDP", "BTH", "DETH", "MAD", "CM_REQ"]
