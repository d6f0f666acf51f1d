"""What the additional information of a refusal says, reason by reason."""

from __future__ import annotations

import pytest

from dissectors.cm import (
    AP_STATUSES,
    REJ_REASONS,
    SIDR_STATUSES,
    additional_path_info,
    additional_reject_info,
    additional_sidr_info,
)
from dissectors.mad import ClassPortInfo

GID = bytes.fromhex("fe80000000000000505400fffeaa0001")
REDIRECT = bytes(
    ClassPortInfo(
        redirect_gid="fe80::9",
        redirect_lid=9,
        redirect_qp=5,
        redirect_q_key=0x80010000,
        redirect_partition_key=0x7FFF,
    )
)
REDIRECT_WORDS = "GID fe80::9, LID 9, QPN 0x000005, Q_Key 0x80010000, P_Key 0x7fff"


@pytest.mark.parametrize(
    ("reason", "info", "name", "words"),
    [
        (4, "505400fffeaa0002", "CA GUID of the sender", "5054:00ff:feaa:0002"),
        (12, GID.hex(), "acceptable GID", "fe80::5054:ff:feaa:1"),
        (18, GID.hex(), "acceptable GID", "fe80::5054:ff:feaa:1"),
        (13, "0012", "acceptable LID", "18"),
        (19, "c000", "acceptable LID", "49152"),
        (14, "3f", "acceptable SL", "3"),
        (20, "f0", "acceptable SL", "15"),
        (15, "20", "acceptable traffic class", "32"),
        (21, "ff", "acceptable traffic class", "255"),
        (16, "40", "acceptable hop limit", "64"),
        (22, "01", "acceptable hop limit", "1"),
        (17, "40", "acceptable packet rate", "100 Gb/s"),
        (23, "07", "acceptable packet rate", "unknown(0x01)"),
        (24, REDIRECT.hex(), "redirect to", REDIRECT_WORDS),
        (25, GID.hex(), "port to use", "fe80::5054:ff:feaa:1"),
        (26, "4f", "acceptable path MTU", "2048 bytes"),
        (26, "60", "acceptable path MTU", "unknown(0x06)"),
        (28, "0104050607", "consumer data", "01040506 07"),
        (31, "02", "supported class version", "2"),
        (32, "123456", "acceptable flow label", "0x12345"),
        (33, "00001f", "acceptable flow label", "0x00001"),
    ],
)
def test_reject_information(reason: int, info: str, name: str, words: str) -> None:
    ari = bytes.fromhex(info)
    assert additional_reject_info(reason, len(ari), ari.ljust(72, b"\0")) == (name, words)
    assert additional_reject_info(reason, len(ari) - 1, ari.ljust(72, b"\0")) is None or reason == 28
    assert additional_reject_info(reason, len(ari), ari[:-1]) is None or reason == 28


def test_no_information() -> None:
    assert additional_reject_info(8, 0, bytes(72)) is None
    assert additional_reject_info(4, 0, b"\x11" * 72) is None
    assert additional_reject_info(8, 72, bytes(72)) is None


def test_information_that_the_reason_does_not_define() -> None:
    assert additional_reject_info(8, 3, b"\x01\x02\x03" + bytes(69)) == ("additional information", "010203")
    assert additional_reject_info(0xFFFF, 127, b"\x01" * 72) == ("additional information", ("01010101 " * 18).strip())


@pytest.mark.parametrize(
    ("status", "info", "name", "words"),
    [
        (4, REDIRECT.hex(), "redirect to", REDIRECT_WORDS),
        (7, "0007", "acceptable LID", "7"),
        (8, GID.hex(), "acceptable GID", "fe80::5054:ff:feaa:1"),
        (9, "123450", "acceptable flow label", "0x12345"),
        (10, "11", "acceptable traffic class", "17"),
        (11, "40", "acceptable hop limit", "64"),
        (12, "0c", "acceptable packet rate", "10 Gb/s"),
        (13, "50", "acceptable SL", "5"),
    ],
)
def test_path_information(status: int, info: str, name: str, words: str) -> None:
    data = bytes.fromhex(info)
    assert additional_path_info(status, len(data), data.ljust(72, b"\0")) == (name, words)
    assert additional_path_info(status, len(data) - 1, data) is None


def test_sidr_information_is_a_redirection_or_none() -> None:
    assert additional_sidr_info(4, REDIRECT) == ("redirect to", REDIRECT_WORDS)
    assert additional_sidr_info(4, REDIRECT[:71]) is None
    assert additional_sidr_info(0, REDIRECT) is None


def test_codes_that_no_edition_defines_have_no_name() -> None:
    assert set(REJ_REASONS) == set(range(1, 36)) - {34}
    assert set(AP_STATUSES) == set(range(14))
    assert set(SIDR_STATUSES) == set(range(6))
    assert (REJ_REASONS[8], REJ_REASONS[10], REJ_REASONS[28]) == (
        "invalid service ID",
        "stale connection",
        "consumer reject",
    )
