"""A scan finds what the full iteration finds: the same messages, the same data packets, the same counters."""

from __future__ import annotations

import gzip
import os
import sys
import threading

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st
from sources.files.traffic import (
    CM,
    DATA,
    DATA_QPN,
    ENCAPSULATIONS,
    FORMATS,
    NAMES,
    NOTICES,
    SCHEDULE,
    START,
    WITHOUT_SHAPE,
    capture_of,
    erf_file,
    erf_of,
    outcome,
    pcap_file,
    pcapng_file,
    recorded,
    same,
)

from ibcmtool.packets import CmMessage, Neighbour, Undelivered
from ibcmtool.sources.files import ScanRequest, open_capture, scan


@settings(max_examples=600)
@given(st.data(), st.sampled_from([pcap_file, pcapng_file, erf_file]), SCHEDULE)
def test_any_capture(make, tmp_path_factory, data, build, schedule):
    content = bytearray(data.draw(build(make)))
    damage = data.draw(st.integers(0, 7))
    if damage == 1:
        content = content[: data.draw(st.integers(0, len(content)))]
    elif damage == 2 and content:
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    packed = bytes(content)
    if damage == 3:
        packed = gzip.compress(packed)
    elif damage == 4:
        packed = zstandard.compress(packed)
    path = tmp_path_factory.getbasetemp() / "any"
    path.write_bytes(packed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scan, "REVIEW", data.draw(st.sampled_from([1, 2, 64])))
        patch.setattr(scan, "PATIENCE", data.draw(st.sampled_from([0, 1, 3, 10, 10_000])))
        patch.setattr("ibcmtool.sources.files.streams.CHUNK", data.draw(st.sampled_from([50, 700, 5000, 1 << 20])))
        same(path, schedule)


def qpns_of(items: list[CmMessage | Neighbour | Undelivered]) -> list[int]:
    fields = [item.fields for item in items if isinstance(item, CmMessage)]
    return [each.local_qpn for each in fields if getattr(each, "local_qpn", None)]


@pytest.mark.parametrize("path", recorded(), ids=lambda path: path.name)
def test_recorded_captures(path):
    decoded = outcome(path, [], everything=True)
    qpns = set() if isinstance(decoded, str) else set(qpns_of(decoded.messages))
    same(path, [qpns])
    same(path, [set(), qpns, qpns])


@pytest.mark.parametrize(("container", "name"), FORMATS)
def test_watched_data_as_long_as_the_patience_lasts(make, tmp_path, monkeypatch, container, name):
    monkeypatch.setattr(scan, "PATIENCE", 5)
    contents = ["RC"] * 3 + ["UC", "REQ", "RC", "UC", "SA", "UD", "RC", "RC", "UC", "REP with immediate data"]
    contents += ["UC", "RC", "UC", "UC", "UC", "UC", "UC"]
    path = tmp_path / "capture"
    path.write_bytes(capture_of(make, container, name, contents))
    result = same(path, [{DATA_QPN}, {DATA_QPN + 1}])
    assert [message.frame for message in result.messages] == [5, 6, 10, 13, 14, 16, 17, 18]


@pytest.fixture
def looked_at(monkeypatch) -> list[int]:
    """The numbers of the frames that were not judged by their shape."""
    numbers: list[int] = []
    wants = scan.FrameFilter.wants

    def noted(self, frame, number, watched):
        numbers.append(number)
        return wants(self, frame, number, watched)

    monkeypatch.setattr(scan.FrameFilter, "wants", noted)
    return numbers


@pytest.mark.pure
@pytest.mark.parametrize(("container", "name"), FORMATS)
def test_data_packets_are_passed_over(make, tmp_path, looked_at, container, name):
    contents = (["RC", "UD", "UC"] * 100 + ["REQ"]) * 2
    path = tmp_path / "capture"
    path.write_bytes(capture_of(make, container, name, contents))
    result = same(path)
    assert [frame.number for frame in result.frames] == [301, 602]
    assert result.info.frames == 602
    assert len(looked_at) == (602 if name in WITHOUT_SHAPE else 1)


@pytest.mark.parametrize(("container", "name"), FORMATS)
def test_the_shape_of_one_encapsulation_misjudges_no_other(make, tmp_path, container, name):
    """Frames of each other encapsulation of the same link type come while the shape of this one is known."""
    link_type = ENCAPSULATIONS[name][0]
    path = tmp_path / "capture"
    for other in NAMES:
        if ENCAPSULATIONS[other][0] != link_type:
            continue
        content = capture_of(make, container, name, ["RC"] * 3)
        parts = [capture_of(make, container, which, ["RC", "REQ", "RC"]) for which in (name, other, name)]
        head = 0 if container == "erf" else len(getattr(make, container)([]))
        path.write_bytes(content + b"".join(part[head:] for part in parts))
        result = same(path, [{DATA_QPN}])
        assert [message.frame for message in result.messages] == [5, 6, 7, 8, 9, 10, 11, 12], other


@pytest.mark.pure
@pytest.mark.parametrize("container", ["pcap", "pcapng", "erf"])
def test_notices_are_seen_between_data_packets(make, tmp_path, looked_at, container):
    """Whatever shape the data packets of their link type have; and these are passed over as before."""
    path = tmp_path / "capture"
    for which, name in enumerate(NAMES):
        link_type, data = DATA["RC"][which]
        told = [frame for other, frame in NOTICES if other == link_type]
        if container == "erf" and link_type != 197:
            continue
        packets = [*[data] * 200, *told, CM["REQ"][which][1], *[data] * 200]
        timed = [(START + number * 1_000_000, packet, len(packet)) for number, packet in enumerate(packets)]
        if container == "erf":
            content = b"".join(erf_of(packet, (time << 32) // 1_000_000_000, 0) for time, packet, _ in timed)
        else:
            content = getattr(make, container)(timed, link_type=link_type)
        path.write_bytes(content)
        looked_at.clear()
        result = same(path)
        assert [message.frame for message in result.messages] == list(range(201, 202 + len(told))), name
        assert [isinstance(message, (Neighbour, Undelivered)) for message in result.messages] == [True] * len(told) + [
            False
        ]
        if name not in WITHOUT_SHAPE:
            assert len(looked_at) <= 1 + len(told)


@pytest.mark.pure
def test_the_shape_follows_the_traffic(make, tmp_path, looked_at):
    """One VLAN first, then another: after REVIEW frames the second is known, and its frames are passed over."""
    first, second = (DATA["RC"][NAMES.index(f"Ethernet, {which}VLAN, IPv4")][1] for which in ("", "another "))
    path = tmp_path / "capture"
    path.write_bytes(make.pcap([(START, data, len(data)) for data in [first] * 1000 + [second] * 1000]))
    with open_capture(str(path), 0) as capture:
        assert list(capture.scan(ScanRequest())) == []
    assert capture.info.frames == 2000
    assert looked_at[:2] == [1, 1001]
    assert len(looked_at) <= 2 + 2 * scan.REVIEW


def test_nothing_is_watched_without_a_word(make, tmp_path):
    path = tmp_path / "capture"
    path.write_bytes(capture_of(make, "pcap", "Ethernet, IPv4", ["RC", "REQ", "RC"]))
    with open_capture(str(path), 0) as capture:
        assert [frame.number for frame in capture.scan(ScanRequest())] == [2]


def test_progress_is_told(make, tmp_path, monkeypatch):
    monkeypatch.setattr("ibcmtool.sources.files.streams.CHUNK", 1000)
    for container, name in [("pcap", "Ethernet, IPv4"), ("pcapng", "InfiniBand"), ("erf", "ERF, InfiniBand")]:
        path = tmp_path / "capture"
        path.write_bytes(capture_of(make, container, name, ["RC"] * 100))
        told = []
        with open_capture(str(path), 0) as capture:
            assert list(capture.scan(ScanRequest(progress=told.append))) == []
        assert told == sorted(told)
        assert len(told) > 5
        assert told[-1] == 100


def test_messages_of_a_running_capture_come_at_once(make, monkeypatch):
    content = capture_of(make, "pcap", "Ethernet, IPv4", ["RC", "RC", "REQ"])
    reader, writer = os.pipe()
    os.write(writer, content)
    seen = []

    def read():
        with open_capture("-", 0) as capture:
            seen.append(next(capture.scan(ScanRequest())).number)

    with os.fdopen(reader) as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        thread = threading.Thread(target=read, daemon=True)
        thread.start()
        thread.join(20)
        waiting = thread.is_alive()
        os.close(writer)  # lets a reader that waits for more come to its end
        thread.join(20)
    assert not waiting
    assert seen == [3]


def test_counters_when_the_reader_leaves_early(make, tmp_path):
    path = tmp_path / "capture"
    path.write_bytes(capture_of(make, "pcap", "Ethernet, IPv4", ["RC"] * 5 + ["REQ"] + ["RC"] * 5))
    with open_capture(str(path), 0) as capture:
        next(capture.scan(ScanRequest()))
        assert capture.info.frames == 6
    assert (capture.info.first_time, capture.info.last_time) == (START, START + 5_000_000)
    assert not capture.info.damage
