"""What cannot be read: one line, which says what was found, what was expected and what to try."""

from __future__ import annotations

import io
import os
import pickle
import struct
import sys
import threading

import pytest

from ibcmtool.sources.files import SourceError, foreign, open_capture, streams


def refusal(path) -> SourceError:
    with pytest.raises(SourceError) as caught:
        open_capture(str(path), 0)
    line = str(caught.value)
    assert "\n" not in line
    assert line.startswith(f"{'standard input' if path == '-' else path}: ")
    assert caught.value.path == str(path)
    return caught.value


def test_no_such_file(tmp_path):
    assert str(refusal(tmp_path / "none.pcap")) == f"{tmp_path / 'none.pcap'}: no such file; check the path"
    assert "no such file" in refusal("").problem


def test_directory(tmp_path):
    assert str(refusal(tmp_path)) == f"{tmp_path}: is a directory; name the capture files in it"


def test_no_permission(tmp_path, monkeypatch):
    path = tmp_path / "locked.pcap"
    path.write_bytes(b"")
    if os.geteuid() == 0:  # root may read anything

        def deny(name):
            raise PermissionError(13, "Permission denied", name)

        monkeypatch.setattr("ibcmtool.sources.files.streams.io.FileIO", deny)
    else:
        path.chmod(0)
    assert refusal(path).problem == "permission denied"


def test_other_reasons_of_the_system(tmp_path):
    (tmp_path / "loop").symlink_to("loop")
    assert "cannot be opened: Too many levels of symbolic links" in str(refusal(tmp_path / "loop"))
    assert "cannot be opened: File name too long" in str(refusal(tmp_path / ("x" * 300)))
    assert "cannot be opened: Not a directory" in str(refusal("/dev/null/capture.pcap"))
    with pytest.raises(SourceError, match="cannot be opened: embedded null"):
        open_capture("zero\0byte", 0)


def test_strange_paths_stay_on_one_line(tmp_path):
    with pytest.raises(SourceError) as caught:
        open_capture(f"{tmp_path}/a\nb\x1b[31m\udcff.pcap", 0)
    assert str(caught.value) == f"{tmp_path}/a\\nb\\x1b[31m\\udcff.pcap: no such file; check the path"


def test_error_survives_pickling(tmp_path):
    error = SourceError("a.pcap", "is odd", "try again", 12)
    again = pickle.loads(pickle.dumps(error))
    assert str(again) == str(error) == "a.pcap: is odd (at offset 12); try again"
    assert (again.path, again.problem, again.hint, again.offset) == ("a.pcap", "is odd", "try again", 12)


def test_empty_file(tmp_path):
    path = tmp_path / "empty.pcap"
    path.write_bytes(b"")
    assert refusal(path).problem == "is empty"


def test_named_pipe_that_ends_at_once(tmp_path):
    path = tmp_path / "pipe"
    os.mkfifo(path)
    writer = threading.Thread(target=lambda: path.open("wb").close())
    writer.start()
    assert refusal(path).problem == "is empty"
    writer.join()


def test_standard_input_that_ends_at_once(monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO()))
    assert str(refusal("-")).startswith("standard input: is empty; ")


def test_standard_input_that_is_not_there(monkeypatch):
    monkeypatch.setattr(sys, "stdin", None)
    assert refusal("-").problem == "is closed"


def test_standard_input_that_is_a_terminal(monkeypatch):
    class Terminal(io.TextIOWrapper):
        def isatty(self):
            return True

    monkeypatch.setattr(sys, "stdin", Terminal(io.BytesIO()))
    assert refusal("-").problem == "is a terminal"


def test_standard_input_stays_open(make, monkeypatch):
    stdin = io.TextIOWrapper(io.BytesIO(make.pcap([(5, b"a", 1)])))
    monkeypatch.setattr(sys, "stdin", stdin)
    with open_capture("-", 0) as capture:
        assert len(list(capture)) == 1
    assert not stdin.closed


@pytest.mark.parametrize("name", ["pcap", "pcapng", "erf"])
def test_frames_of_a_running_capture_come_at_once(make, monkeypatch, name):
    records = [(n * 1_000_000_000, b"frame", 5) for n in range(1, 11)]
    content = {
        "pcap": make.pcap(records),
        "pcapng": make.pcapng(records),
        "erf": b"".join(make.erf_record((1 << 60) + n, b"frame") for n in range(10)),
    }[name]
    reader, writer = os.pipe()
    os.write(writer, content)
    seen = []

    def read():
        with open_capture("-", 0) as capture:
            for frame in capture:
                seen.append(frame.data[-5:])
                if len(seen) == 10:
                    return

    with os.fdopen(reader) as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        thread = threading.Thread(target=read, daemon=True)
        thread.start()
        thread.join(20)
        waiting = thread.is_alive()
        os.close(writer)  # lets a reader that waits for more come to its end
        thread.join(20)
    assert not waiting
    assert seen == [b"frame"] * 10


def test_text(tmp_path):
    path = tmp_path / "text.pcap"
    path.write_text("21:30:01.1 IP 10.77.0.1.53100 > 10.77.0.2.4791: UDP\n" * 30)
    error = refusal(path)
    assert error.problem == "looks like text ('21:30:01.1 IP 10.77.0.1.53100 > 10.77.0.'), not a capture"
    assert "tcpdump -w" in error.hint
    path.write_text("Größe: 5 µs\n" * 100)  # the sample ends within a character
    assert "looks like text ('Größe: 5 µs" in refusal(path).problem
    path.write_text("a\n")
    assert "looks like text ('a')" in refusal(path).problem


@pytest.mark.parametrize(("magic", "what", "hint"), foreign.MAGICS)
def test_foreign_formats_are_named(tmp_path, magic, what, hint):
    path = tmp_path / "foreign"
    path.write_bytes(magic + bytes(range(256)) * 4)
    error = refusal(path)
    assert error.problem == f"is {what}, not a capture that can be read"
    assert error.hint == hint


def test_real_foreign_files(tmp_path):
    assert "an ELF program" in refusal(os.path.realpath(sys.executable)).problem
    path = tmp_path / "archive.tar"
    path.write_bytes(b"capture.pcap".ljust(257, b"\0") + b"ustar\x0000" + bytes(248) + bytes(512))
    assert refusal(path).problem == "is a tar archive, not a capture"


def test_unknown_bytes(tmp_path):
    path = tmp_path / "unknown"
    path.write_bytes(struct.pack(">QQQ", 0xDEADBEEF00C0FFEE, 0xFFFF, 7))
    error = refusal(path)
    assert error.problem == "unknown format: begins with the bytes de ad be ef 00 c0 ff ee 00 00 00 00 00 00 ff ff"
    assert error.offset == 0
    path.write_bytes(b"\xa1\xb2")
    assert refusal(path).problem == "unknown format: begins with the bytes a1 b2"
    path.write_bytes(bytes(5000))
    assert "begins with the bytes 00 00" in refusal(path).problem


def test_the_name_does_not_matter(make, tmp_path):
    path = tmp_path / "capture.txt.zst"
    path.write_bytes(make.pcapng([(1, b"a", 1)]))
    with open_capture(str(path), 0) as capture:
        assert len(list(capture)) == 1
    assert (capture.info.path, capture.info.format) == (str(path), "pcapng")


def test_read_error_on_the_way(make, tmp_path, monkeypatch):
    path = tmp_path / "failing.pcap"
    path.write_bytes(make.pcap([(5, b"12345", 5)] * 3))

    class Failing(io.FileIO):
        def readinto(self, room):
            if self.tell() >= 50:
                raise OSError(5, "Input/output error")
            return super().readinto(memoryview(room)[:50])

    monkeypatch.setattr("ibcmtool.sources.files.streams.io.FileIO", Failing)
    with open_capture(str(path), 0) as capture:
        assert len(list(capture)) == 1
    assert capture.info.truncated
    assert capture.info.damage == (
        "reading failed at offset 50 of the file: Input/output error; "
        "cut off at offset 50: the record header of frame 2 from offset 45 on needs 11 more bytes"
    )


@pytest.mark.pure
def test_non_blocking_input(monkeypatch):
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    os.write(writer, b"\xd4\xc3\xb2\xa1")
    with os.fdopen(reader, "rb", buffering=0) as raw, os.fdopen(writer, "wb"):
        monkeypatch.setattr(streams, "_standard_input", lambda: raw)
        assert "no data at hand in a non-blocking file" in refusal("-").problem


def test_frames_once_and_closed_at_the_end(make, tmp_path):
    path = tmp_path / "a.pcap"
    path.write_bytes(make.pcap([(5, b"a", 1)] * 3))
    capture = open_capture(str(path), 0)  # closed by its end: an open file left would be a warning, and so an error
    assert next(iter(capture)).number == 1
    assert capture.info.frames == 1
    assert [frame.number for frame in capture] == [2, 3]
    assert list(capture) == []
    assert capture.info.frames == 3
