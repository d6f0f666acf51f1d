"""Clocks of two captures of the same packets: found apart, put together, and left alone where nothing is known."""

from __future__ import annotations

import re
import struct
from dataclasses import replace

import pytest
import typer
from conversation import Conversation
from recordings import Recording, judged, offsets

from ibcmtool.cli import app
from ibcmtool.cli.analysis import clock_offsets_of
from ibcmtool.engine.clocks import LONGEST_WAY, offset
from ibcmtool.engine.files import analyze

SECOND = 1_000_000_000


def records(path):
    """Times (ns) and bytes of the frames of a classic pcap file."""
    data, at, found = path.read_bytes(), 24, []
    while at < len(data):
        sec, usec, captured, _ = struct.unpack_from("<4I", data, at)
        found.append((sec * SECOND + usec * 1000, data[at + 16 : at + 16 + captured]))
        at += 16 + captured
    return found


def write(path, frames):
    """A classic pcap file (Ethernet, ns) of these frames, in the order of their times."""
    parts = [struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 262144, 1)]
    for time, frame in sorted(frames):
        parts.append(struct.pack("<4I", *divmod(time, SECOND), len(frame), len(frame)) + frame)
    path.write_bytes(b"".join(parts))
    return str(path)


def shifted(source, target, seconds, keep=lambda number: True):
    """A copy of a classic pcap file whose clock is `seconds` ahead; `keep` chooses frames by number from 1."""
    later = round(seconds * SECOND)
    return write(
        target, [(time + later, frame) for number, (time, frame) in enumerate(records(source), 1) if keep(number)]
    )


@pytest.mark.parametrize("seconds", [40.0, -3600.0, 100_000.0, 0.002])
def test_two_ends_with_clocks_apart_give_each_connection_once(captures, tmp_path, seconds):
    one, two = captures / "rping.pcap", tmp_path / "other.pcap"
    result = analyze([str(one), shifted(one, two, seconds)])
    alone = analyze([str(one)])
    assert [c.history for c in result.connections] == ["QpUDe"]
    assert [len(step.sightings) for step in result.connections[0].steps] == [1] * 5
    assert result.inputs[1].clock_offset == round(seconds * SECOND)
    assert result.inputs[1].shared_packets == 5
    assert result.connections[0].closed == alone.connections[0].closed


def test_successive_files_of_one_host_are_left_alone(captures, tmp_path):
    source = captures / "nvme_host_crash_stale.pcap"
    first = shifted(source, tmp_path / "ring1.pcap", 0, lambda number: number <= 7)
    second = shifted(source, tmp_path / "ring2.pcap", 0, lambda number: number > 7)
    result = analyze([first, second])
    assert [info.clock_offset for info in result.inputs] == [0, 0]
    assert [c.outcome for c in result.connections] == ["stale", "stale", "rejected", "rejected"]
    swapped = analyze([second, first])
    assert [c.history for c in swapped.connections] == [c.history for c in result.connections]


def test_half_the_sum_of_both_directions_is_the_offset():
    assert offset([[5_000_100] * 3, [4_999_900] * 3]) == 5_000_000


def test_the_shortest_ways_leave_the_least_room():
    """Long ways (a queue, a busy host) tell little: the offset lies between the smallest and the largest difference."""
    assert offset([[5_000_100, 9_000_000, 8_000_000], [4_999_900, 4_999_950, 3_000_000]]) == 5_000_025


def test_late_stamps_of_both_directions_are_averaged():
    """Where differences of both directions overlap, no offset explains all of them."""
    assert offset([[3, 7, 11], [2, 5, 9]]) == 6


def test_one_direction_alone_tells_delay_and_offset_apart_only_when_it_is_large():
    assert offset([[3_000_000]]) == 0
    assert offset([[LONGEST_WAY]]) == 0
    assert offset([[-900_000_000]]) == -900_000_000
    assert offset([[40 * SECOND, 40 * SECOND + 9, 40 * SECOND + 2]]) == 40 * SECOND + 2
    assert offset([]) == 0


@pytest.mark.parametrize("ahead", [0.0, 0.4, -30.0, 5000.0])
@pytest.mark.parametrize("keep", [("REQ", "RTU", "DREQ"), ("REP", "DREP")])
def test_packets_of_one_direction_only(ahead, keep):
    """Known up to the path delay, so nothing comes in another order."""
    talk = Conversation()
    for number in range(3):
        life = talk if number == 0 else talk.another()
        life.establish(number * 100)
        life.close(number * 100 + 1)
    others = [replace(item, file=1, time=item.time + round((ahead + 0.001) * SECOND)) for item in talk.capture]
    first = Recording(talk.capture, -10, 1000)
    second = Recording([item for item in others if item.type in keep], ahead, 1000 + ahead)
    assert abs(offsets([first, second])[1] - round(ahead * SECOND)) <= 2_000_000
    assert {f.severity for f in judged([first, second]).findings} == {"info"}


@pytest.mark.parametrize("ahead", [-5000.0, -0.4, 0.001, 0.4, 30.0])
def test_each_end_recorded_its_own_messages_only(ahead):
    """No packet is in both, but an answer is never before its question."""
    talk = Conversation()
    for number in range(3):
        life = talk if number == 0 else talk.another()
        life.establish(number * 100)
        life.close(number * 100 + 1, by="passive" if number else "active")
    talk.another().active(350, "REQ")
    first = [item for item in talk.capture if item.source == talk.hosts["active"].address]
    second = [
        replace(item, file=1, time=item.time + round(ahead * SECOND))
        for item in talk.capture
        if item.source != talk.hosts["active"].address
    ]
    recordings = [Recording(first, -10, 1000), Recording(second, ahead - 10, 1000 + ahead)]
    assert abs(offsets(recordings)[1] - round(ahead * SECOND)) <= 10_000_000  # the handshake took 20 ms
    result = judged(recordings)
    assert [c.history for c in result.connections] == ["QpUDe", "QpUdE", "QpUdE", "Q"]
    assert {f.severity for f in result.findings} <= {"info"}


def test_answers_that_may_belong_to_another_question_tell_nothing():
    """A REQ that was sent again: the first send may be missing, and the REP may have come before the second."""
    talk = Conversation()
    req = talk.active(10, "REQ")
    talk.again(16.4, req)
    talk.passive(5, "REP")
    talk.active(17, "RTU")
    first = [item for item in talk.capture if item.type != "REP"]
    second = [replace(item, file=1) for item in talk.capture if item.type == "REP"]
    assert offsets([Recording(first, 0, 100), Recording(second, 0, 100)]) == [0, 0]


def test_files_of_a_ring_have_one_clock():
    """What the first of them shares with the other end tells of the second, which shares nothing."""
    talk = Conversation()
    talk.establish(0)
    talk.close(1)
    later = talk.another()
    later.establish(100)
    ahead = 400 * SECOND
    first = Recording([item for item in talk.capture if item.time < talk.capture[5].time], -10, 50)
    whole = [replace(item, file=1, time=item.time + ahead + 1000) for item in talk.capture]
    ring = [Recording(whole[:5], 390, 460), Recording([replace(item, file=2) for item in whole[5:]], 460.1, 600)]
    assert offsets([first, *ring]) == pytest.approx([0, ahead, ahead], abs=1000)


# -- by hand -----------------------------------------------------------------------------------------------------------


def test_an_offset_by_hand_takes_the_place_of_the_estimate(captures, tmp_path):
    one, two = captures / "rping.pcap", tmp_path / "other.pcap"
    path = shifted(one, two, 40)
    result = analyze([str(one), path], clock_offsets={path: 40 * SECOND + 7})
    assert (result.inputs[1].clock_offset, result.inputs[1].clock_given) == (40 * SECOND + 7, True)
    assert result.inputs[1].shared_packets == 5
    assert [c.history for c in result.connections] == ["QpUDe"]
    assert "C03" not in {finding.code for finding in result.findings}  # nobody is told what they said


def test_the_first_input_may_be_the_one_whose_clock_is_off(captures, tmp_path):
    path = shifted(captures / "rping.pcap", tmp_path / "first.pcap", -3600)
    other = str(captures / "rping.pcap")
    alone = analyze([other])
    result = analyze([path, other], clock_offsets={path: -3600 * SECOND})
    assert [info.clock_offset for info in result.inputs] == [-3600 * SECOND, 0]
    assert result.connections[0].opened == alone.connections[0].opened


def test_the_analysis_ends_by_the_common_clock(captures, tmp_path):
    """Not an hour later, which would let every timer run out."""
    source = captures / "client_killed.pcap"
    path = shifted(source, tmp_path / "ahead.pcap", 3600, lambda number: number < 4)
    assert analyze([str(source), path]).connections[0].outcome == "closed"
    only_req = shifted(source, tmp_path / "req.pcap", 0, lambda number: number < 2)
    ahead = shifted(source, tmp_path / "req_ahead.pcap", 3600, lambda number: number < 2)
    result = analyze([only_req, ahead])
    assert [c.outcome for c in result.connections] == ["connecting"]


@pytest.mark.parametrize(
    ("text", "ns"),
    [
        ("a.pcap=3600", 3_600_000_000_000),
        ("a.pcap=-0.25", -250_000_000),
        ("./a.pcap=1.000000001", 1_000_000_001),
        ("a.pcap=1e-9", 1),
        ("a.pcap=1700000000.123456789", 1_700_000_000_123_456_789),
    ],
)
def test_seconds_to_the_nanosecond(text, ns):
    assert clock_offsets_of([text], ["a.pcap", "b.pcap"]) == {"a.pcap": ns}


@pytest.mark.parametrize(
    ("texts", "says"),
    [
        (["a.pcap"], "'a.pcap' is not FILE=SECONDS"),
        (["c.pcap=1"], "'c.pcap' is none of the inputs (a.pcap, b=c.pcap)"),
        (["a.pcap="], "'' is no number of seconds"),
        (["a.pcap=1h"], "'1h' is no number of seconds"),
        (["a.pcap=nan"], "'nan' is no number of seconds"),
        (["a.pcap=1e999999"], "'1e999999' is no number of seconds"),
        (["a.pcap=1", "a.pcap=2"], "'a.pcap' is named twice"),
    ],
)
def test_offsets_that_make_no_sense(texts, says):
    with pytest.raises(typer.BadParameter, match=re.escape(says)):
        clock_offsets_of(texts, ["a.pcap", "b=c.pcap"])


def test_a_file_name_may_hold_the_sign():
    assert clock_offsets_of(["b=c.pcap=2"], ["a.pcap", "b=c.pcap"]) == {"b=c.pcap": 2 * SECOND}


@pytest.mark.parametrize("command", ["analyze", "timeline"])
def test_the_option(command, captures, capsys):
    path = str(captures / "rping.pcap")
    with pytest.raises(SystemExit) as end:
        app([command, path, "--clock-offset", f"{path}=-3600.5", "--quiet"])
    assert not end.value.code
    assert "13:58:45.105" in capsys.readouterr().out
    with pytest.raises(SystemExit) as end:
        app([command, path, "--clock-offset", "elsewhere.pcap=1"])
    assert end.value.code == 2
