"""tshark lists us among its interfaces and captures from us (the extcap protocol)."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ibcmtool import extcap

Run = Callable[..., Any]


@pytest.fixture
def tshark(run: Run, tmp_path: Path, root: Path, require_tool: Callable[[str], str]) -> Callable[..., str]:
    """Runs tshark with our script, and nothing else, in its extcap folder; gives what it prints."""
    program = require_tool("tshark")
    folder = tmp_path / "extcap"
    assert run("wireshark", "install", "--folder", folder).code == 0
    environment = {**os.environ, "WIRESHARK_EXTCAP_DIR": str(folder), "PYTHONPATH": str(root)}
    command = [program]
    if os.geteuid() == 0:
        # For root tshark heeds no variable: our folder covers the system's, for tshark alone.
        # 4.0 names one, newer ones name their user's before it.
        folders = subprocess.run([program, "-G", "folders"], capture_output=True, text=True, check=True).stdout
        place = re.search(r"^(?:Global )?Extcap path:\s*(\S+)", folders, re.MULTILINE)
        assert place is not None
        script = 'mount --bind "$0" "$1" && shift && exec "$@"'
        command = [require_tool("unshare"), "--mount", "sh", "-c", script, str(folder), place[1], program]

    def call(*arguments: str) -> str:
        done = subprocess.run(
            [*command, *arguments], env=environment, capture_output=True, text=True, timeout=60, check=False
        )
        return done.stdout + done.stderr

    return call


def test_tshark_lists_the_interface(tshark: Callable[..., str]) -> None:
    assert "ibcmtool (ibcmtool: kernel CM MADs)" in tshark("-D")


def test_tshark_captures_from_it(tshark: Callable[..., str], captures: Path) -> None:
    source = f"extcap.ibcmtool.source:replay:{captures / 'nvme_host_crash_stale.pcap'}@0"
    told = tshark("-i", "ibcmtool", "-o", source, "-T", "fields", "-e", "_ws.col.Info", "-e", "frame.comment")
    lines = [line for line in told.splitlines() if line.startswith("CM: ")]
    assert len(lines) == 14
    assert lines[0].startswith("CM: ConnectRequest")
    assert "warning S02 stale-refused" in lines[8]


def test_why_it_cannot_capture_is_said_in_one_line(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    arguments = ["--extcap-interface", "ibcmtool", "--capture", "--fifo", str(tmp_path / "fifo"), "--source", "x"]
    assert extcap.main(arguments) == 1
    assert capsys.readouterr().err.startswith("ibcmtool: x: is no live source; name one of")


def test_what_wireshark_asks(capsys: pytest.CaptureFixture[str]) -> None:
    assert extcap.main(["--extcap-interfaces", "--extcap-version=4.0"]) == 0
    assert "interface {value=ibcmtool}{display=ibcmtool: kernel CM MADs}" in capsys.readouterr().out
    assert extcap.main(["--extcap-interface", "ibcmtool", "--extcap-dlts"]) == 0
    assert capsys.readouterr().out.startswith("dlt {number=1}")
    assert extcap.main(["--extcap-interface", "ibcmtool", "--extcap-config"]) == 0
    assert "{call=--source}" in capsys.readouterr().out
    assert extcap.main(["--extcap-interface", "eth0", "--extcap-dlts"]) == 1
    assert extcap.main([]) == 1


def test_install_and_uninstall(run: Run, tmp_path: Path) -> None:
    assert run("wireshark", "install", "--folder", tmp_path).code == 0
    script = tmp_path / "ibcmtool-extcap"
    assert os.access(script, os.X_OK)
    assert run("wireshark", "uninstall", "--folder", tmp_path).code == 0
    assert not script.exists()
    again = run("wireshark", "uninstall", "--folder", tmp_path)
    assert (again.code, again.err.count("\n")) == (2, 1)


def test_a_folder_where_one_may_not_write(run: Run, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    result = run("wireshark", "install", "--folder", tmp_path / "file")
    assert result.code == 2
    assert "cannot be written" in result.err
