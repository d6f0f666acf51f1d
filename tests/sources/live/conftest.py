"""Places where live sources find real traffic, made by the tests and gone after them: a network namespace, a fabric."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

PATIENCE = 20.0  # seconds until a test gives up waiting for what must come

SENDER = """
    import socket, sys
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as wire:
        wire.bind((sys.argv[1], 0))
        frames = [bytes.fromhex(line) for line in sys.stdin]
        for _ in range(int(sys.argv[2])):
            for frame in frames:
                wire.send(frame)
"""


class Namespace:
    """A network namespace with a pair of interfaces, va and vb: what one sends the other receives."""

    def __init__(self, name: str) -> None:
        self.name = name

    def command(self, *arguments: object) -> list[str]:
        return ["ip", "netns", "exec", self.name, *map(str, arguments)]

    def run(self, *arguments: object, **given: Any) -> str:
        done = subprocess.run(
            self.command(*arguments), capture_output=True, text=True, check=True, timeout=PATIENCE, **given
        )
        return done.stdout

    def mac(self, interface: str) -> bytes:
        return bytes.fromhex(self.run("cat", f"/sys/class/net/{interface}/address").strip().replace(":", ""))

    def send(self, frames: Iterable[bytes], interface: str = "va", times: int = 1) -> None:
        """Whole frames, from a raw socket."""
        lines = "\n".join(frame.hex() for frame in frames)
        self.run(sys.executable, "-c", textwrap.dedent(SENDER), interface, times, input=lines)


@pytest.fixture
def namespace(require_tool: Callable[[str], str]) -> Iterator[Namespace]:
    require_tool("ip")
    made = Namespace(f"ibcmtool-{os.getpid()}")
    done = subprocess.run(["ip", "netns", "add", made.name], capture_output=True, text=True)
    if done.returncode:
        if os.environ.get("CI") == "true":
            pytest.fail(f"no network namespace: {done.stderr}")
        pytest.skip(f"no network namespace: {done.stderr.strip()}")
    try:
        # Nothing of its own is to be on the wire.
        made.run("sh", "-c", "echo 1 | tee /proc/sys/net/ipv6/conf/*/disable_ipv6")
        made.run("ip", "link", "add", "va", "type", "veth", "peer", "name", "vb")
        for interface in ("va", "vb", "lo"):
            made.run("ip", "link", "set", interface, "up")
        yield made
    finally:
        subprocess.run(["ip", "netns", "delete", made.name], check=True)


@pytest.fixture
def start(root: Path) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Starts a program with the repository on its path; whatever still runs at the end is ended."""
    kept = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "FORCE_COLOR", "COLUMNS")}
    started: list[subprocess.Popen[str]] = []

    def start(command: list[str], environment: dict[str, str] | None = None, **given: Any) -> subprocess.Popen[str]:
        pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        process = subprocess.Popen(
            command,
            text=True,
            env={**kept, "PYTHONPATH": str(root), **(environment or {})},
            **{**pipes, **given},
        )
        started.append(process)
        return process

    yield start
    for process in started:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout, process.stderr):
            if pipe is not None:
                pipe.close()
