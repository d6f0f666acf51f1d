"""With a prescan the reader finds what it finds alone, wherever the prescan's guesses lead."""

from __future__ import annotations

import gzip
import io
import os
import subprocess
import sys
import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sources.files.traffic import DATA_QPN, SCHEDULE, START, capture_of, erf_file, outcome, pcap_file, pcapng_file, same

from ibcmtool.sources.files import ScanRequest, open_capture, prescan, streams


class Companion:
    """What a prescan's process does, done in this one."""

    received: list[list[prescan.Piece]]

    def __init__(self, task):
        self.task = task()
        Companion.received = []

    @staticmethod
    def possible():
        return True

    def receive(self):
        pieces = next(self.task, None)
        if pieces is not None:
            self.received.append(list(pieces))
        return pieces

    def close(self):
        self.task.close()


pytestmark = pytest.mark.pure  # `use_prescan` exchanges the companion, `jumps` the window


def use_prescan(patch, *, stripe=2000, chunk=600, companion=Companion):
    """Have files of any size walked with a prescan, in small pieces."""
    patch.setattr(prescan, "LARGE", 0)
    patch.setattr(prescan, "STRIPE", stripe)
    patch.setattr(prescan, "SEARCHED", 400)
    patch.setattr(prescan, "IN_A_ROW", 2)
    patch.setattr(prescan, "_cores", lambda: 2)
    patch.setattr(prescan, "Prescan", companion)
    patch.setattr(streams, "CHUNK", chunk)


@pytest.fixture
def jumps(monkeypatch) -> list[int]:
    """Where the reader went on, each time that it passed over something."""
    offsets: list[int] = []

    class Noted(prescan.RelayWindow):
        def more(self, position, need):
            here = self.offset + position
            complete = super().more(position, need)
            if self.offset != here:
                offsets.append(self.offset)
            return complete

    monkeypatch.setattr(prescan, "RelayWindow", Noted)
    return offsets


CONTENTS = (["RC", "RC", "UC", "UD"] * 30 + ["REQ", "RC", "SA", "REP with immediate data"] + ["RC"] * 20) * 3
CONTENTS += ["RC"] * 50 + ["REQ"] + ["RC"] * 50


@pytest.fixture(params=["pcap", "pcapng", "erf"])
def path(make, tmp_path, request):
    """About 80 kB: data, and a conversation now and then."""
    path = tmp_path / "capture"
    name = "ERF, InfiniBand" if request.param == "erf" else "Ethernet, IPv4"
    path.write_bytes(capture_of(make, request.param, name, CONTENTS))
    return path


@pytest.mark.parametrize(("stripe", "chunk"), [(2000, 600), (500, 300), (700, 5000), (10_000, 1000), (30_000, 100)])
def test_most_data_is_passed_over(path, jumps, monkeypatch, stripe, chunk):
    alone = same(path)
    assert len(alone.messages) == 7
    use_prescan(monkeypatch, stripe=stripe, chunk=chunk)
    result = same(path)
    assert (result.messages, result.info) == (alone.messages, alone.info)
    assert jumps
    passed_over = sum(piece.frames for pieces in Companion.received for piece in pieces)
    assert passed_over > alone.info.frames / 5


def test_pieces_are_exact(path, monkeypatch):
    """Each begins and ends where records do, and its counters are those of its records."""
    with open_capture(str(path), 0) as capture:
        frames = list(capture)
    head = {"pcap": 24, "pcapng": 56, "erf": 0}[capture.info.format]
    around = {"pcap": 16, "pcapng": 32, "erf": 0}[capture.info.format]
    offsets = [head]
    for frame in frames:
        size = around + len(frame.data)
        offsets.append(offsets[-1] + (size + -size % 4 if around == 32 else size))
    use_prescan(monkeypatch)
    outcome(path, [], everything=False)
    pieces = [piece for pieces in Companion.received for piece in pieces]
    assert len(pieces) > 10
    for piece in pieces:
        inside = frames[offsets.index(piece.begin) : offsets.index(piece.end)]
        times = [frame.time for frame in inside if frame.time]
        assert (piece.frames, piece.first_time, piece.last_time) == (len(inside), min(times), max(times))
        assert piece.cut_frames == sum(frame.wire_length > len(frame.data) for frame in inside)


@pytest.mark.parametrize("extreme", range(0, 300, 7))
def test_what_is_passed_over_is_counted(make, tmp_path, jumps, monkeypatch, extreme):
    """The earliest and the latest record, one behind the other anywhere in the file, and some that were cut."""
    times = [START + number for number in range(300)]
    times[extreme : extreme + 2] = [START - 1_000_000, START + 1_000_000]
    lengths = [70 + number % 3 for number in range(300)]
    path = tmp_path / "capture"
    path.write_bytes(
        make.pcap([(time, bytes(70), wire) for time, wire in zip(times, lengths, strict=False)], nano=True)
    )
    use_prescan(monkeypatch)
    info = same(path).info
    assert (info.frames, info.cut_frames) == (len(times), 200)
    assert len(jumps) > 5


@pytest.mark.parametrize("patience", range(0, 60, 3))
def test_no_watched_packet_is_passed_over(make, tmp_path, jumps, monkeypatch, patience):
    monkeypatch.setattr("ibcmtool.sources.files.scan.PATIENCE", patience)
    path = tmp_path / "capture"
    use_prescan(monkeypatch, stripe=400, chunk=300)
    for lead in range(4):  # so that the patience ends at different places in a piece
        path.write_bytes(capture_of(make, "pcap", "Ethernet, IPv4", ["UC"] * lead + ["REQ"] + ["RC"] * 100))
        assert len(same(path, [{DATA_QPN}]).messages) == 1 + patience
        assert jumps


@settings(max_examples=600)
@given(st.data(), st.sampled_from([pcap_file, pcapng_file, erf_file]), SCHEDULE)
def test_any_capture(make, tmp_path_factory, data, build, schedule):
    content = data.draw(build(make))
    damage = data.draw(st.integers(0, 4))
    if damage == 1:
        content = content[: data.draw(st.integers(0, len(content)))]
    elif damage == 2 and content:
        position = data.draw(st.integers(0, len(content) - 1))
        content = content[:position] + data.draw(st.binary(min_size=1, max_size=3)) + content[position + 1 :]
    path = tmp_path_factory.getbasetemp() / "any"
    path.write_bytes(content)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("ibcmtool.sources.files.scan.PATIENCE", data.draw(st.sampled_from([0, 3, 10, 10_000])))
        patch.setattr(prescan, "NEAR", 1 << 40)
        use_prescan(patch, stripe=data.draw(st.integers(50, 3000)), chunk=data.draw(st.sampled_from([50, 700, 5000])))
        patch.setattr(prescan, "IN_A_ROW", data.draw(st.sampled_from([1, 2, 8])))
        same(path, schedule)


@pytest.mark.parametrize("shift", [-1, 1, 7, 16])
def test_wrong_guesses_do_no_harm(path, monkeypatch, shift):
    alone = outcome(path, [{DATA_QPN}], everything=True)
    right = prescan._border
    use_prescan(monkeypatch)
    monkeypatch.setattr(prescan, "_border", lambda *arguments: max(0, (right(*arguments) or 0) + shift))
    result = same(path, [{DATA_QPN}])
    assert (result.messages, result.info) == (alone.messages, alone.info)


def test_a_prescan_that_is_lost_on_the_way(path, jumps, monkeypatch):
    class Lost(Companion):
        def receive(self):
            return super().receive() if len(self.received) < 3 else None

    use_prescan(monkeypatch, companion=Lost)
    assert same(path).info.frames > 400
    assert jumps
    assert max(jumps) < 6 * 2000 + 600


def test_candidates_everywhere(make, tmp_path, jumps, monkeypatch):
    path = tmp_path / "capture"
    path.write_bytes(capture_of(make, "pcap", "Ethernet, IPv4", ["REQ"] * 100))
    use_prescan(monkeypatch)
    assert len(same(path).messages) == 100
    assert not any(Companion.received)
    assert not jumps


def test_a_file_that_was_replaced_is_not_walked(path, make, monkeypatch):
    content = path.read_bytes()
    alone = outcome(path, [], everything=True)
    use_prescan(monkeypatch)
    with open_capture(str(path), 0) as capture:
        path.unlink()
        path.write_bytes(content[:3000])
        frames = [frame.number for frame in capture.scan(ScanRequest())]
    assert (capture.info, frames[0]) == (alone.info, 121)
    assert Companion.received == []


def test_where_no_prescan_is_started(path, monkeypatch):
    def forbidden(task):
        raise AssertionError

    alone = outcome(path, [], everything=True)
    use_prescan(monkeypatch)
    monkeypatch.setattr(Companion, "__init__", lambda self, task: forbidden(task))
    with pytest.raises(AssertionError):
        outcome(path, [], everything=False)
    assert outcome(path, [], everything=True) == alone
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(path.read_bytes())))
    with open_capture("-", 0) as capture:
        assert list(capture.scan(ScanRequest()))
    packed = path.with_suffix(".gz")
    packed.write_bytes(gzip.compress(path.read_bytes()))
    assert outcome(packed, [], everything=False).messages == alone.messages
    monkeypatch.setattr(prescan, "_cores", lambda: 1)
    assert outcome(path, [], everything=False).messages == alone.messages
    monkeypatch.setattr(prescan, "_cores", lambda: 2)
    monkeypatch.setattr(prescan, "LARGE", path.stat().st_size + 1)
    assert outcome(path, [], everything=False).messages == alone.messages


def test_beside_other_threads_no_process_is_started():
    halt = threading.Event()
    thread = threading.Thread(target=halt.wait)
    thread.start()
    assert not prescan.Prescan.possible()
    halt.set()
    thread.join()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are not forked here")
def test_a_process_of_its_own(path, root):
    """In a process without other threads: the result is the same, the prescan is used, and nothing is left of it."""
    program = """
import os, sys
from ibcmtool.sources.files import ScanRequest, open_capture, prescan, streams
received = []
receive = prescan.Prescan.receive
prescan.Prescan.receive = lambda self: received.append(receive(self)) or received[-1]
prescan.LARGE, prescan.STRIPE, prescan.SEARCHED, prescan.IN_A_ROW = 0, 2000, 400, 2
streams.CHUNK, prescan._cores = 600, lambda: 2
for leave_early in (False, True):
    with open_capture(sys.argv[1], 0) as capture:
        numbers = []
        for frame in capture.scan(ScanRequest()):
            numbers.append(frame.number)
            if leave_early and received:
                break
    print(numbers, capture.info.frames, capture.info.damage, sum(len(pieces or []) for pieces in received) > 10)
    received.clear()
    try:
        os.waitpid(-1, 0)
    except ChildProcessError:
        print("no child")
"""
    command = [sys.executable, "-W", "error", "-c", program, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, cwd=root)
    assert (done.returncode, done.stderr) == (0, "")
    alone = outcome(path, [], everything=False)
    numbers = [frame.number for frame in alone.frames]
    whole, none, part, none_again = done.stdout.splitlines()
    assert whole == f"{numbers} {alone.info.frames}  True"
    assert part.startswith(f"[{numbers[0]}")
    assert {none, none_again} == {"no child"}


SIZES = [60, 1082, 74, 1082, 1098, 0, 300] * 6
TIMES = [START + n * 999_999_999 for n in range(len(SIZES))]


def records_of(make, container, order):
    """What is in front of the records, and the records."""
    if container == "erf":
        return b"", [make.erf_record((t << 32) // 10**9, bytes(n)) for t, n in zip(TIMES, SIZES, strict=True)]
    if container == "pcapng":
        head = make.section(order) + make.interface(1, order)
        return head, [make.enhanced(t, bytes([n % 256]) * n, n, 0, order) for t, n in zip(TIMES, SIZES, strict=True)]
    nano = container == "pcap, ns"
    header = make.pcap_header(order, nano=nano)
    return header, [make.pcap_record(t, b"a" * n, n, order, nano=nano) for t, n in zip(TIMES, SIZES, strict=True)]


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("container", ["pcap", "pcap, ns", "pcapng", "erf"])
def test_records_are_found_from_anywhere(make, tmp_path, monkeypatch, container, order):
    head, records = records_of(make, container, order)
    borders, content = [len(head)], head
    for record in records:
        content += record
        borders.append(len(content))
    path = tmp_path / "capture"
    path.write_bytes(content)
    given = []
    monkeypatch.setattr("ibcmtool.sources.files.records.with_prescan", lambda *call: given.append(call) or call[0])
    with open_capture(str(path), 0) as capture:
        assert sum(1 for _ in capture) == len(SIZES)
    follow = given[0][-1]
    for begin in range(len(head), borders[-prescan.IN_A_ROW - 1], 13):
        stream = streams.FileStream(str(path))
        stream.jump(begin)
        window = streams.Window(stream, str(path))
        window.offset = begin
        found = prescan._border(window, START, follow)
        window.close()
        assert begin + found == min(border for border in borders if border >= begin)


def swept(make, path, blocks, *, more=()):
    """`blocks` behind some data packets of interface 0 and before others, at places where stripes begin.

    Gives the number of packets before, and what is found.
    """
    head = make.section() + make.interface(1, options=make.option(9, b"\x09")) + make.interface(105)
    data = [make.enhanced(START + n, bytes(40), 40) for n in range(40)]
    with pytest.MonkeyPatch.context() as patch:
        use_prescan(patch, stripe=1000, chunk=300)
        for before in (26, 40):  # up to 1948 and 2956
            for filler in range(0, 100, 4):
                start = [head, *data[:before], make.block(5, bytes(filler))]
                path.write_bytes(b"".join([*start, *blocks, *data, *more, *data]))
                yield before, same(path)


def test_simple_packets_have_the_time_of_the_packet_before(make, tmp_path, jumps):
    cm = capture_of(make, "pcapng", "Ethernet, IPv4", ["REQ"])[56 + 28 : -4]
    for gap in ([], [make.block(5, bytes(100))] * 20):
        for before, result in swept(make, tmp_path / "capture", [*gap, make.simple(cm, len(cm))]):
            assert [(message.frame, message.time) for message in result.messages] == [(before + 1, START + before - 1)]
    assert jumps


def test_simple_packets_can_have_the_time_of_a_foreign_interface(make, tmp_path, jumps):
    """This time counts as soon as such a packet comes, wherever the prescan begins."""
    late = 2 * START // 1000
    foreign, simple = make.enhanced(late, b"abc", 3, 1), make.simple(bytes(40), 40)
    for _, result in swept(make, tmp_path / "capture", [foreign, simple]):
        assert result.info.last_time == late * 1000
    for _, result in swept(make, tmp_path / "capture", [foreign]):
        assert result.info.last_time == START + 39
    assert jumps


def test_sections_and_interfaces_on_the_way(make, tmp_path):
    """The prescan knows those from the beginning of the file only."""
    path = tmp_path / "capture"
    coarse = make.interface(1, options=make.option(9, b"\0"))
    cm = capture_of(make, "pcapng", "Ethernet, IPv4", ["RC"] * 9 + ["REQ"])[56:]
    for before, result in swept(make, path, [make.section(), coarse], more=[cm]):
        assert (result.info.frames, len(result.messages)) == (before + 90, 1)
    for before, result in swept(make, path, [coarse], more=[make.enhanced(1, bytes(40), 50, 2), cm]):
        info = result.info
        assert (info.frames, info.first_time, info.cut_frames) == (before + 91, 1_000_000_000, 1)
    for before, result in swept(make, path, [make.section(options=make.option(4, b"another program"))]):
        assert result.info.damage.endswith("packet of interface 0, but 0 described")
        assert result.info.frames == before
    other = make.section(">") + make.interface(247, ">")
    big_endian = [make.enhanced(n, b"abc", 4, 0, ">") for n in range(50)]
    for before, result in swept(make, path, [other, *big_endian, make.section(), coarse]):
        info = result.info
        assert (info.frames, info.cut_frames, info.link_types) == (before + 130, 50, [1, 105, 247])
