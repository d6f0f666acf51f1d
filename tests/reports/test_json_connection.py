"""The text of connections and messages is what `json` makes of the plain objects that stand here."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dissectors.recognition import CM_ATTRIBUTES, MAD_SIZE
from ibcmtool import formatting, services
from ibcmtool.connections.knowledge import knowledge
from ibcmtool.connections.release import retry_of
from ibcmtool.model import Connection, End, Outcome, Role, State, Step, Timewait
from ibcmtool.packets import Address, CmMessage, Transport
from ibcmtool.reports import json_messages, rejects
from ibcmtool.reports.display_filter import DisplayFilters
from ibcmtool.reports.json_connection import connection_text
from ibcmtool.reports.json_messages import fields_object, messages_text
from ibcmtool.views.tally import refusal_of
from ibcmtool.wire.readers import read_message

TYPES = tuple(CM_ATTRIBUTES.values())
DATA_SIZE = 232  # behind the MAD header
TIMES = st.integers(-(1 << 40), 1 << 62)


def time(ns: int | None) -> str | None:
    return None if ns is None else formatting.seconds(ns)


def message_object(step: Step) -> dict[str, Any]:
    message, first = step.message, step.retransmission_of
    return {
        "frame": message.frame,
        "file": message.file,
        "time": time(message.time),
        "type": message.type,
        "sender": step.sender,
        "retransmission_of": None if first is None else first.message.frame,
        "fields": fields_object(message.fields),
    }


def end_object(conn: Connection, role: Role) -> dict[str, Any]:
    end = conn.end(role)
    return {
        "name": formatting.end_name(end),
        "ca_guid": None if end.ca_guid is None else formatting.guid(end.ca_guid),
        "gid": None if end.address.gid is None else formatting.gid(end.address.gid),
        "lid": end.address.lid,
        "qpn": None if end.qpn is None else formatting.qpn(end.qpn),
        "comm_id": None if end.comm_id is None else formatting.comm_id(end.comm_id),
        "state": end.state,
        "knowledge": knowledge(conn, role),
        "timewait_until": time(end.timewait.likely if end.timewait is not None else None),
        "implementation": end.implementation.name if end.implementation is not None else None,
    }


def connection_object(conn: Connection, filters: DisplayFilters) -> dict[str, Any]:
    refusal = refusal_of(conn)
    retry = retry_of(conn)
    return {
        "id": conn.id,
        "outcome": conn.outcome,
        "history": conn.history,
        "service": {
            "id": None if conn.service_id is None else formatting.service_id(conn.service_id),
            "name": services.connection_service(conn),
        },
        "transport": conn.transport,
        "display_filter": filters.of(conn),
        "active": end_object(conn, "active"),
        "passive": end_object(conn, "passive"),
        "opened": time(conn.opened),
        "established": time(conn.established),
        "closed": time(conn.closed),
        "duration": time(conn.lasted()),
        **({} if retry is None else {"earliest_safe_retry": time(retry.time), "retry_basis": retry.basis}),
        "refusal": None
        if refusal is None
        else {
            "sidr": refusal.sidr,
            "reason": refusal.reason,
            "words": refusal.words or None,
            "by": refusal.by,
            "meaning": rejects.meaning(conn) or None,
        },
        "messages": [message_object(step) for step in conn.steps],
    }


def whole(data: bytes = b"") -> bytes:
    """The data of a message, with zeros behind: 232 bytes."""
    return data[:DATA_SIZE].ljust(DATA_SIZE, b"\0")


def message(message_type: str, data: bytes, frame: int = 1, at: int = 0, file: int = 0, version: int = 2) -> CmMessage:
    """A message whose data, behind the MAD header, are these."""
    port, mad = Address(None, 1), bytes(MAD_SIZE - DATA_SIZE) + data
    fields = read_message(message_type, data)
    return CmMessage(file, frame, at, message_type, port, port, "RoCE v2", 0, 7, fields, mad, True, version)


def step(sent: CmMessage, sender: Any = "active", first: Step | None = None) -> Step:
    return Step(sent, sender, "accepted", first, "IDLE", "IDLE")


def check(*steps: Step) -> None:
    assert messages_text(steps) == ", ".join(json.dumps(message_object(one)) for one in steps)


@pytest.mark.parametrize("message_type", TYPES)
@given(data=st.data())
def test_messages_of_random_fields(message_type: str, data: Any) -> None:
    """The second message shares some bytes with the first, so that what is remembered of one serves the other."""
    one, other = (whole(data.draw(st.binary(max_size=DATA_SIZE))) for _ in range(2))
    taken = data.draw(st.binary(min_size=DATA_SIZE, max_size=DATA_SIZE))
    mixed = bytes(pair[choice & 1] for pair, choice in zip(zip(one, other, strict=True), taken, strict=True))
    first = step(message(message_type, one, data.draw(st.integers(1, 1 << 40)), data.draw(TIMES)))
    again = step(
        message(message_type, mixed, 2, data.draw(TIMES), data.draw(st.integers(0, 3))),
        data.draw(st.sampled_from(["active", "passive", "unknown"])),
        data.draw(st.sampled_from([None, first])),
    )
    check(first, again, first)


@pytest.mark.parametrize("message_type", TYPES)
def test_each_byte_alone(message_type: str) -> None:
    """Every byte that differs, on its own, from a message that is already remembered."""
    check(step(message(message_type, whole())))
    for place in range(DATA_SIZE):
        check(step(message(message_type, whole(bytes(place) + b"\xff"))))


def test_a_run_of_fields_remembers_only_so_many_texts() -> None:
    for number in range(3 * json_messages._MOST_REMEMBERED):
        data = whole(bytes(20) + number.to_bytes(4, "big"))  # in the private data
        assert f"{number:08x}" in messages_text([step(message("RTU", data))])
    written = json_messages._format_of("RTU")
    assert written is not None
    runs = [run for _, run in written._parts if run is not None]
    assert all(0 < len(run.texts) <= json_messages._MOST_REMEMBERED for run in runs)


@pytest.mark.parametrize("message_type", TYPES)
def test_cut_messages(message_type: str) -> None:
    data = bytes(range(1, DATA_SIZE + 1))
    for size in range(DATA_SIZE + 1):
        check(step(message(message_type, data[:size])))


@pytest.mark.parametrize("message_type", TYPES)
def test_messages_of_another_class_version(message_type: str) -> None:
    check(step(message(message_type, whole(b"\1\2\3"), version=1)))


def test_a_message_of_an_unknown_attribute() -> None:
    for number, data in ((0x0020, b"\1\2"), (0x0021, b"\1\2"), (0x0020, b""), (0x0020, bytes(232))):
        check(step(message(f"attribute 0x{number:04x}", data)))


ENDS = st.builds(
    End,
    role=st.just("active"),
    address=st.builds(
        Address,
        gid=st.none() | st.binary(min_size=16, max_size=16) | st.just(bytes(10) + b"\xff\xff\x0a\x4d\x00\x01"),
        lid=st.none() | st.integers(0, 0xFFFF),
    ),
    state=st.sampled_from(get_args(State)),
    ca_guid=st.none() | st.integers(0, (1 << 64) - 1),
    qpn=st.none() | st.integers(0, (1 << 24) - 1),
    comm_id=st.none() | st.integers(0, (1 << 32) - 1),
    name=st.sampled_from(["", "10.77.0.2:41234", "[fe80::1]:4420"]) | st.text(max_size=8),
    timewait=st.none() | st.builds(Timewait, TIMES, TIMES, TIMES, TIMES, st.booleans()),
)


def made(begin: dict[str, Any], became: dict[str, Any]) -> Connection:
    conn = Connection(**begin)
    for name, value in became.items():
        setattr(conn, name, value)
    return conn


CONNECTIONS = st.builds(
    made,
    begin=st.fixed_dictionaries(
        {
            "id": st.integers(1, 1 << 40),
            "active": ENDS,
            "passive": ENDS,
            "transport": st.sampled_from(get_args(Transport)),
            "opened": TIMES,
            "outcome": st.sampled_from(get_args(Outcome)),
        }
    ),
    became=st.fixed_dictionaries(
        {
            "service_id": st.none() | st.sampled_from([0x1061144, 0x1111C06]) | st.integers(0, (1 << 64) - 1),
            "established": st.none() | TIMES,
            "closed": st.none() | TIMES,
            "history": st.sampled_from(["", "QpUDe", "Q^Q^Q"]) | st.text(max_size=6),
        }
    ),
)


@given(conn=CONNECTIONS, count=st.integers(0, 2))
def test_random_connections(conn: Connection, count: int) -> None:
    conn.steps = [step(message("RTU", whole(b"\1\2\3"), frame)) for frame in range(count)]
    filters = DisplayFilters([conn])
    assert connection_text(conn, filters.of(conn)) == json.dumps(connection_object(conn, filters))


def test_every_scene(scene: Any) -> None:
    filters = DisplayFilters(scene.connections)
    for conn in scene.connections:
        assert connection_text(conn, filters.of(conn)) == json.dumps(connection_object(conn, filters))


def test_names_that_json_must_escape(records: SimpleNamespace) -> None:
    conn = records.clean_close().connections[0]
    conn.active.name = 'a "host"\\\u00e9'
    assert json.loads(connection_text(conn, ""))["active"]["name"] == conn.active.name
