"""How each object of the JSON reports is written: input, event, finding, summary, decoded message, frame.

Connections with their messages, of which there are many, are in json_connection; what is counted together is in
json_rows. Times are decimal strings of seconds since the epoch with nine digits (a double cannot hold them), durations
decimal strings of seconds; identifiers are text as Wireshark and the kernel write them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from ibcmtool import formatting
from ibcmtool.analysis import Finding, InputInfo
from ibcmtool.engine.sink import Received
from ibcmtool.model import Event
from ibcmtool.packets import CmMessage, Frame
from ibcmtool.reports import values
from ibcmtool.reports.json_messages import fields_object

if TYPE_CHECKING:
    from ibcmtool.wire.detail import LayerDetail

Object = dict[str, Any]


def time(ns: int | None) -> str | None:
    """A time or duration."""
    return None if ns is None else formatting.seconds(ns)


def counts(numbers: Mapping[Any, int]) -> dict[str, int]:
    """How often each word occurs; what does not occur is left out."""
    return {word: number for word, number in sorted(numbers.items()) if number}


def service_object(service_id: int | None, name: str) -> Object:
    """A service: its id and its name."""
    return {"id": None if service_id is None else formatting.service_id(service_id), "name": name}


def input_object(info: InputInfo) -> Object:
    """One input."""
    entry: Object = {
        "path": info.path,
        "format": info.format,
        "link_types": list(info.link_types),
        "frames": info.frames,
        "cm_messages": info.cm_messages,
        "first_time": time(info.first_time),
        "last_time": time(info.last_time),
        "truncated": info.truncated,
    }
    if info.timeless:
        entry["timeless"] = True
    if info.traffic is not None:
        entry["traffic"] = asdict(info.traffic)
    return entry


def event_object(event: Event, received: Received | None) -> Object | None:
    """A message of a connection as it comes, with what its source knows; None for other events."""
    step = event.step
    if step is None or event.kind != step.message.type:
        return None
    message, first = step.message, step.retransmission_of
    frame = received.frame if received is not None and received.number == message.frame else None
    return {
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


def finding_object(finding: Finding) -> Object:
    """One finding."""
    return {
        "code": finding.code,
        "name": finding.name,
        "severity": finding.severity,
        "confidence": finding.confidence,
        "policy": finding.policy,
        "connection": finding.connection,
        "related": list(finding.related),
        "frames": [{"file": file, "frame": frame} for file, frame in finding.frames],
        "message": finding.message,
        "advice": finding.advice,
        "evidence": {name: values.evidence(value) for name, value in finding.evidence.items()},
    }


def summary_object(outcomes: Counter[Any], codes: Counter[str], attempts: Sequence[Object] = ()) -> Object:
    """Counts, and the attempts that failed alike; what does not occur is left out."""
    summary: Object = {"connections": outcomes.total(), "by_outcome": counts(outcomes), "by_code": counts(codes)}
    return {**summary, "attempts": attempts} if attempts else summary


def message_object(message: CmMessage) -> Object:
    """One message by itself; the fields look as in the messages of a connection."""
    return {
        "frame": message.frame,
        "time": formatting.seconds(message.time),
        "source": formatting.address(message.source),
        "destination": formatting.address(message.destination),
        "transport": message.transport,
        "type": message.type,
        "psn": message.psn,
        "tid": f"0x{message.tid:016x}",
        "icrc_ok": message.icrc_ok,
        "fields": fields_object(message.fields),
    }


def frame_object(frame: Frame, message_type: str, layers: Iterable[LayerDetail]) -> Object:
    """One frame with all its layers."""
    return {
        "frame": frame.number,
        "time": formatting.seconds(frame.time),
        "type": message_type,
        "captured": len(frame.data),
        "length": frame.wire_length,
        "layers": [
            {
                "layer": layer.layer,
                "fields": {
                    field.name: {"value": field.value, "words": field.words, "bytes": field.raw.hex()}
                    for field in layer.fields
                },
            }
            for layer in layers
        ],
    }
