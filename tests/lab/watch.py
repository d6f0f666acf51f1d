"""A live source and tcpdump at the same time on one machine, and what each of them saw."""

from __future__ import annotations

import json
import signal
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from lab.lab import IBCMTOOL
from lab.machine import Machine

from ibcmtool.packets import CmMessage
from ibcmtool.sources.files import open_capture
from ibcmtool.wire.decode import Decoder

TRACING = "/sys/kernel/tracing"
FABRIC = "$(basename $(readlink /run/fabric))"  # the interface, for a shell
SETTLE = 1.5  # seconds in which what is under way arrives


class Watch:
    """A context manager: watches while the scenario runs; afterwards `wire`, `seen`, `events`, `findings`, `said`."""

    def __init__(self, machine: Machine, source: str, ending: int = signal.SIGINT) -> None:
        self._machine = machine
        self._source = source
        self._ending = ending
        self._folder = machine.share / "watch"
        self.wire: list[CmMessage] = []  # by tcpdump
        self.seen: list[CmMessage] = []  # by the live source
        self.events: list[dict[str, Any]] = []
        self.findings: list[dict[str, Any]] = []
        self.connections: list[dict[str, Any]] = []
        self.said = ""  # on stderr

    def __enter__(self) -> Watch:
        self._folder.mkdir(exist_ok=True)
        for path in self._folder.iterdir():
            path.unlink()
        machine = self._machine
        self._tcpdump = machine.start(
            f"tcpdump -i {FABRIC} -U -B 8192 -w /share/watch/wire.pcap udp port 4791", "/tmp/tcpdump"
        )
        self.pid = machine.start(
            f"{IBCMTOOL} live {self._source} --format jsonl --write /share/watch/seen.pcapng", "/share/watch/out"
        )
        machine.until(self._begun(), seconds=90)
        machine.until("grep -q listening /tmp/tcpdump.err")
        return self

    def _begun(self) -> str:
        pid = self.pid
        if self._source == "kernel":
            return f"grep -q 1 {TRACING}/instances/ibcmtool-{pid}/events/ibcmtool_{pid}/tx/enable 2>/dev/null"
        if self._source.startswith("umad"):
            return f"ls -l /proc/{pid}/fd | grep -q infiniband/umad"
        return "test $(wc -l </proc/net/packet) -ge 3"  # the heading, tcpdump and we

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        machine = self._machine
        machine.run(f"sleep {SETTLE}")
        machine.stop(self.pid, self._ending)
        machine.stop(self._tcpdump, signal.SIGINT)
        self.said = (self._folder / "out.err").read_text()
        if kind is not None:
            return
        self.wire = cm_messages(self._folder / "wire.pcap")
        self.seen = cm_messages(self._folder / "seen.pcapng")
        for line in (self._folder / "out").read_text().splitlines():
            told = json.loads(line)
            kept = {"event": self.events, "finding": self.findings, "connection": self.connections}.get(told["kind"])
            if kept is not None:
                kept.append(told)

    def codes(self) -> list[str]:
        return sorted({finding["code"] for finding in self.findings})

    def types(self) -> list[str]:
        """What the source saw, one word a message."""
        return [message.type for message in self.seen]

    def senders(self, message_type: str) -> set[str]:
        """The programs that sent messages of a type, without their process ids."""
        return {
            event["process"].rpartition("-")[0]
            for event in self.events
            if event["type"] == message_type and event["direction"] == "out"
        }

    def check(self) -> None:
        """Each CM MAD of the wire was seen, as often, between the same addresses, with the same bytes; nothing else."""
        assert _told(self.seen) == _told(self.wire)
        assert _bytes(self.seen) == _bytes(self.wire)


def cm_messages(path: Path) -> list[CmMessage]:
    decode = Decoder()
    with open_capture(str(path), 0) as capture:
        items = [decode(frame) for frame in capture]
    return [item for item in items if isinstance(item, CmMessage)]


def _told(messages: Iterable[CmMessage]) -> Counter[tuple[str, int]]:
    """By type and TransactionID: what a failing test should show first."""
    return Counter((message.type, message.tid) for message in messages)


def _bytes(messages: Iterable[CmMessage]) -> Counter[tuple[object, object, bytes]]:
    return Counter((message.source, message.destination, message.mad) for message in messages)
