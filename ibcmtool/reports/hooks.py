"""What a finding sets off: a command of the user's; and word to the service manager that we are at work."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import time
from contextlib import suppress

from ibcmtool.analysis import Finding, Severity
from ibcmtool.model import Event
from ibcmtool.reports.json_objects import finding_object
from ibcmtool.reports.sink import Sink
from ibcmtool.views.filters import at_least

FAREWELL = 5.0  # seconds
AT_ONCE = 8  # commands that run at the same time; a storm of findings must not become one of processes


class Command(Sink):
    """Runs a shell command for each finding that is bad enough, without waiting for it.

    The finding comes as JSON on its standard input, and in words in IBCMTOOL_CODE, IBCMTOOL_SEVERITY,
    IBCMTOOL_CONNECTION and IBCMTOOL_MESSAGE. While AT_ONCE of them run, further findings are passed over and counted.
    """

    def __init__(self, command: str, bar: Severity) -> None:
        self._command = command
        self._bar = bar
        self._running: list[subprocess.Popen[bytes]] = []
        self.passed_over = 0

    def finding(self, finding: Finding, event: Event | None) -> None:
        if not at_least(finding.severity, self._bar):
            return
        self._running = [process for process in self._running if process.poll() is None]
        if len(self._running) >= AT_ONCE:
            self.passed_over += 1
            return
        environment = {
            **os.environ,
            "IBCMTOOL_CODE": finding.code,
            "IBCMTOOL_SEVERITY": finding.severity,
            "IBCMTOOL_CONNECTION": "" if finding.connection is None else str(finding.connection),
            "IBCMTOOL_MESSAGE": finding.message,
        }
        # A shell is what the user asks for: the command comes from the command line, the finding only as data.
        process = subprocess.Popen(
            self._command,
            shell=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            env=environment,
            start_new_session=True,  # Ctrl-C is for us
        )
        assert process.stdin is not None
        with suppress(OSError):  # it need not read its input
            process.stdin.write(json.dumps(finding_object(finding)).encode() + b"\n")  # far below what a pipe holds
            process.stdin.close()
        self._running.append(process)

    def close(self) -> None:
        """Let those that still run come to their end."""
        until = time.monotonic() + FAREWELL
        while time.monotonic() < until and any(process.poll() is None for process in self._running):
            time.sleep(0.02)


def notify(state: str) -> None:
    """Tell systemd, where it started us with Type=notify (sd_notify(3)); nothing happens elsewhere."""
    path = os.environ.get("NOTIFY_SOCKET", "")
    if not path:
        return
    address = "\0" + path[1:] if path.startswith("@") else path
    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as manager:
        manager.sendto(state.encode(), address)
