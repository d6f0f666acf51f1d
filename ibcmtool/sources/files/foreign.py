"""Inputs that are no captures, or captures that are not read: recognised so that the refusal can name them."""

from __future__ import annotations

CONVERT = "convert it with Wireshark's editcap: editcap -F pcapng IN OUT"
UNPACK = "unpack it first"
NOT_A_CAPTURE = "name a capture file (pcap, pcapng or ERF)"

# First bytes, what they begin, what to try.
MAGICS = (
    (b"\x34\xcd\xb2\xa1", "a pcap file of the modified kind (patched libpcap of 1999)", CONVERT),
    (b"\xa1\xb2\xcd\x34", "a pcap file of the modified kind (patched libpcap of 1999)", CONVERT),
    (b"\xab\x01\x00\x1c", "an IXIA capture", CONVERT),
    (b"\x1c\x00\x01\xab", "an IXIA capture", CONVERT),
    (b"\xac\x01\x00\x1c", "an IXIA capture", CONVERT),
    (b"\x1c\x00\x01\xac", "an IXIA capture", CONVERT),
    (b"snoop\0\0\0", "a Solaris snoop capture", CONVERT),
    (b"RTSS", "a Network Monitor 1 capture", CONVERT),
    (b"GMBU", "a Network Monitor 2 capture", CONVERT),
    (b"XCP\0", "a NetXray or Windows Sniffer capture", CONVERT),
    (b"TRSNIFF data", "a DOS Sniffer capture", CONVERT),
    (b"iptrace ", "an AIX iptrace capture", CONVERT),
    (b"btsnoop\0", "a Bluetooth capture (btsnoop)", NOT_A_CAPTURE),
    (b"\x17\x08Dtracing", "a trace-cmd trace", NOT_A_CAPTURE),
    (b"PERFILE2", "a perf trace", NOT_A_CAPTURE),
    (b"PK\x03\x04", "a zip archive", UNPACK),
    (b"7z\xbc\xaf\x27\x1c", "a 7z archive", UNPACK),
    (b"Rar!\x1a\x07", "a RAR archive", UNPACK),
    (b"\x7fELF", "an ELF program or library", NOT_A_CAPTURE),
    (b"\x89PNG\r\n\x1a\n", "a PNG picture", NOT_A_CAPTURE),
    (b"\xff\xd8\xff", "a JPEG picture", NOT_A_CAPTURE),
    (b"%PDF-", "a PDF document", NOT_A_CAPTURE),
    (b"SQLite format 3\0", "an SQLite database", NOT_A_CAPTURE),
)
TAR_MAGIC_AT = 257
ENOUGH = 16  # bytes to wait for, so that all but the tar archive is recognised
SAMPLE = 512  # bytes that a text is recognised by, where there are so many
UNKNOWN_HINT = "pcap, pcapng, ERF, and gzip, zstd, xz, bzip2 or lz4 of these are read; `capinfos FILE` tells more"


def recognize(data: bytes) -> tuple[str, str] | None:
    """(problem, hint) for a well-known foreign format or a text, by the first bytes; None for unknown bytes."""
    for magic, what, hint in MAGICS:
        if data.startswith(magic):
            return f"is {what}, not a capture that can be read", hint
    if data[TAR_MAGIC_AT : TAR_MAGIC_AT + 5] == b"ustar":
        return "is a tar archive, not a capture", UNPACK
    if _is_text(data[:SAMPLE]):
        begin = " ".join(data[:40].decode("utf-8", "ignore").split())
        hint = "name the capture itself (tcpdump -w FILE writes one); text2pcap makes one of a hex dump"
        return f"looks like text ({begin!r}), not a capture", hint
    return None


def _is_text(sample: bytes) -> bool:
    try:
        text = sample.decode("utf-8")
    except UnicodeDecodeError as error:
        if error.reason != "unexpected end of data":
            return False
        text = sample[: error.start].decode("utf-8")  # the sample cut a character in two
    return bool(text) and all(c.isprintable() or c in "\t\n\r\f\x1b" for c in text)
