"""What happens, as JSON lines: the objects of `analyze --format jsonl` as they come, and an "event" a message."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any, TextIO

from ibcmtool import formatting
from ibcmtool.engine.sink import Received
from ibcmtool.model import Connection, Event, Finding, InputInfo
from ibcmtool.reports.connection_json import connection_text
from ibcmtool.reports.display_filter import DisplayFilters
from ibcmtool.reports.json import finding_object, input_object, line, summary_object


class JsonLines:
    """Writes one object a line."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._received: Received | None = None
        self._outcomes: Counter[str] = Counter()
        self._codes: Counter[str] = Counter()

    def received(self, received: Received) -> None:
        """The next event with a step is of this message."""
        self._received = received

    def event(self, event: Event) -> None:
        step = event.step
        if step is None or event.kind != step.message.type:
            return
        message, received = step.message, self._received
        frame = received.frame if received is not None and received.number == message.frame else None
        first = step.retransmission_of
        told: dict[str, Any] = {
            "time": formatting.seconds(message.time),
            "type": message.type,
            "connection": event.connection.id,
            "sender": step.sender,
            "source": message.file,
            "frame": message.frame,
            "direction": frame.direction if frame is not None else None,
            "process": (frame.process or None) if frame is not None else None,
            "retransmission_of": first.message.frame if first is not None else None,
            "active_state": step.active_state,
            "passive_state": step.passive_state,
        }
        self._write("event", json.dumps(told))

    def connection(self, connection: Connection) -> None:
        self._outcomes[connection.outcome] += 1
        self._write("connection", connection_text(connection, DisplayFilters([connection]).of(connection)))

    def finding(self, finding: Finding) -> None:
        self._codes[finding.code] += 1
        self._write("finding", json.dumps(finding_object(finding)))

    def input(self, info: InputInfo) -> None:
        self._write("input", json.dumps({**input_object(info), "dropped": info.dropped}))

    def summary(self) -> None:
        self._write("summary", json.dumps(summary_object(self._outcomes, self._codes, ())))

    def _write(self, kind: str, text: str) -> None:
        self._out.write(line(kind, text))

    def flush(self) -> None:
        self._out.flush()
