"""Field types on their own, in small layers."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest

from dissectors.fields import (
    BytesField,
    CodeField,
    ExponentTimeField,
    GidField,
    GuidField,
    HexCodeField,
    HexField,
    NumberField,
    Slot,
    SpecialField,
    WireLayer,
    bytes_words,
    check_layout,
    duration_words,
    exponent_time,
    gid_bytes,
    layout,
)


class Sample(WireLayer):
    name = "sample"
    fields_desc: ClassVar[list[Any]] = [
        GidField("gid"),
        GuidField("guid"),
        ExponentTimeField("timeout", 18),
        CodeField("status", 0, 3, {0: "fine", 5: "refused"}),
        HexField("qpn", 0x11, 24),
        BytesField("data", 10),
    ]


def shown(packet: WireLayer, name: str) -> str:
    return packet.get_field(name).i2repr(packet, packet.getfieldval(name))


def test_layout_reads_places_from_the_field_list() -> None:
    assert layout(Sample) == (
        Slot("gid", 0, 128, "gid"),
        Slot("guid", 128, 64, "number"),
        Slot("timeout", 192, 5, "number"),
        Slot("status", 197, 3, "number"),
        Slot("qpn", 200, 24, "number"),
        Slot("data", 224, 80, "bytes"),
    )


@pytest.mark.parametrize(
    ("given", "text", "raw"),
    [
        ("fe80::1", "fe80::1", "fe800000000000000000000000000001"),
        ("10.77.0.2", "::ffff:10.77.0.2", "00000000000000000000ffff0a4d0002"),
        (bytes(range(16)), "1:203:405:607:809:a0b:c0d:e0f", "000102030405060708090a0b0c0d0e0f"),
    ],
)
def test_gid_takes_text_ipv4_text_and_bytes(given: str | bytes, text: str, raw: str) -> None:
    packet = Sample(gid=given)
    assert packet.gid == text
    assert bytes(packet)[:16].hex() == raw
    assert Sample(bytes(packet)).gid == text


@pytest.mark.parametrize("wrong", ["", "fe80", "10.77.0", "hello", "fe80::1::2", b"short"])
def test_gid_refuses_what_is_no_address(wrong: str | bytes) -> None:
    with pytest.raises(ValueError, match="GID"):
        gid_bytes(wrong)


@pytest.mark.parametrize(
    "given", [0x505400FFFEAA0001, "5054:00ff:feaa:0001", "505400fffeaa0001", "50:54:00:ff:fe:aa:00:01"]
)
def test_guid_takes_numbers_and_text(given: int | str) -> None:
    packet = Sample(guid=given)
    assert bytes(packet)[16:24].hex() == "505400fffeaa0001"
    assert shown(Sample(bytes(packet)), "guid") == "5054:00ff:feaa:0001"


@pytest.mark.parametrize(
    ("exponent", "nanoseconds", "words"),
    [
        (0, 4_096, "0 (4.10 us)"),
        (8, 1_048_576, "8 (1.05 ms)"),
        (14, 67_108_864, "14 (67.1 ms)"),
        (18, 1_073_741_824, "18 (1.07 s)"),
        (31, 8_796_093_022_208, "31 (8796 s)"),
    ],
)
def test_times_are_shown_in_units_people_read(exponent: int, nanoseconds: int, words: str) -> None:
    assert exponent_time(exponent) == nanoseconds
    assert shown(Sample(timeout=exponent), "timeout") == words


def test_durations_below_a_microsecond() -> None:
    assert duration_words(999) == "999 ns"


def test_codes_have_names_and_keep_values_without_one() -> None:
    assert shown(Sample(status=5), "status") == "5 (refused)"
    assert shown(Sample(status=3), "status") == "unknown(0x03)"
    assert Sample(bytes(Sample(status=3))).status == 3
    assert Sample(status="refused").status == 5
    with pytest.raises(ValueError, match="status: no value is called 'lost'"):
        Sample(status="lost")


def test_hex_codes_and_special_values() -> None:
    assert HexCodeField("x", 0, 8, {0x64: "UD SEND ONLY"}).words(0x64) == "0x64 (UD SEND ONLY)"
    assert HexCodeField("x", 0, 8, {}).words(0x2A) == "unknown(0x2a)"
    retries = SpecialField("x", 0, 3, {7: "infinite"})
    assert (retries.words(7), retries.words(6)) == ("7 (infinite)", "6")


def test_raw_bytes_are_padded_and_may_not_be_too_long() -> None:
    assert bytes(Sample(data=b"xy"))[28:] == b"xy" + bytes(8)
    with pytest.raises(ValueError, match="data holds 10 bytes, not 11"):
        bytes(Sample(data=bytes(11)))


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", ""),
        (bytes(1), "1 zero byte"),
        (bytes(92), "92 zero bytes"),
        (b"\x00\x40\xe1\x1a\x05" + bytes(3), "0040e11a 05 + 3 zero bytes"),
        (b"\xff" * 4, "ffffffff"),
    ],
)
def test_raw_bytes_are_shown_as_hex_with_their_zeros_counted(data: bytes, words: str) -> None:
    assert bytes_words(data) == words


def test_a_cut_layer_keeps_what_was_captured() -> None:
    whole = bytes(Sample(gid="fe80::1", guid=7, status=5, data=b"0123456789"))
    packet = Sample(whole[:31])
    assert (packet.gid, packet.guid, packet.status, packet.qpn, packet.data) == ("fe80::1", 7, 5, 0x11, b"012")
    packet = Sample(whole[:25])
    assert (packet.timeout, packet.status, packet.qpn, packet.data) == (18, 5, None, None)
    assert shown(packet, "qpn") == shown(packet, "data") == "[cut off]"
    assert bytes(packet) == whole[:25]
    packet.status = 3
    assert bytes(packet)[24:] == bytes([18 << 3 | 3]) + bytes(13), "what was cut off is built as zeros"


def test_check_layout_refuses_wrong_field_lists() -> None:
    check_layout(Sample, 38)
    with pytest.raises(TypeError, match="304 bits, not 39 bytes"):
        check_layout(Sample, 39)

    class Misnamed(WireLayer):
        fields_desc: ClassVar[list[Any]] = [NumberField("a", 0, 12), NumberField("reserved_2", 0, 4)]

    with pytest.raises(TypeError, match="reserved_2 stands at byte 1"):
        check_layout(Misnamed, 2)

    class Askew(WireLayer):
        fields_desc: ClassVar[list[Any]] = [NumberField("a", 0, 4), BytesField("data", 2), NumberField("b", 0, 4)]

    with pytest.raises(TypeError, match="data does not stand at a byte border"):
        check_layout(Askew, 3)

    class Twice(WireLayer):
        pass

    Twice.fields_desc = [NumberField("a", 0, 8), NumberField("a", 0, 8)]
    with pytest.raises(TypeError, match="a field name stands twice"):
        check_layout(Twice, 2)
