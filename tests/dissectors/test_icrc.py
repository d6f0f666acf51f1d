"""Both checksums against real packets, and against the rule written out the long way."""

from __future__ import annotations

from binascii import crc32
from collections.abc import Callable

import pytest

from dissectors.icrc import Network, icrc_of, icrc_ok, vcrc_of

Located = tuple[int, int, int, Network]  # arguments of icrc_ok


def locate(frame: bytes) -> Located:
    """Network header, BTH and ICRC of an Ethernet frame of RoCE v2."""
    at = 14
    while frame[at - 2 : at] == b"\x81\x00":
        at += 4
    if frame[at] >> 4 == 4:
        return at, at + 28, at + int.from_bytes(frame[at + 2 : at + 4], "big") - 4, "ipv4"
    return at, at + 48, at + 40 + int.from_bytes(frame[at + 4 : at + 6], "big") - 4, "ipv6"


@pytest.mark.parametrize("name", ["rping", "rping_ipv6", "rping_vlan", "nvme_connect_disconnect", "udaddy_sidr"])
def test_every_recorded_packet_has_the_right_icrc(name: str, recorded: Callable[[str], list[bytes]]) -> None:
    frames = recorded(name)
    assert len(frames) > 15
    for number, frame in enumerate(frames, 1):
        assert icrc_ok(frame, *locate(frame)), f"frame {number}"


@pytest.mark.parametrize("name", ["erf-ipoib-cm-infiniband.pcap", "erf-rping-native-ib.pcap"])
def test_native_packets_have_the_right_icrc_and_vcrc(name: str, published: Callable[[str], list[bytes]]) -> None:
    kinds = set()
    for number, frame in enumerate(published(name), 1):
        lrh = 16
        end = lrh + (int.from_bytes(frame[lrh + 4 : lrh + 6], "big") & 0x7FF) * 4
        kind: Network = "grh" if frame[lrh + 1] & 3 == 3 else "lrh"
        network, bth = (lrh + 8, lrh + 48) if kind == "grh" else (lrh, lrh + 8)
        assert icrc_ok(frame, network, bth, end - 4, kind), f"frame {number}"
        assert vcrc_of(frame[lrh:end]) == frame[end : end + 2], f"frame {number}"
        kinds.add(kind)
    assert kinds == {"lrh", "grh"}


VARIANT_BYTES = {
    "rping": {14 + 1, 14 + 8, 14 + 10, 14 + 11, 34 + 6, 34 + 7, 42 + 4},
    "rping_ipv6": {14 + 1, 14 + 2, 14 + 3, 14 + 7, 54 + 6, 54 + 7, 62 + 4},
}


@pytest.mark.parametrize("name", VARIANT_BYTES)
def test_any_flipped_bit_is_noticed_but_where_packets_may_change(
    name: str, recorded: Callable[[str], list[bytes]]
) -> None:
    frame = recorded(name)[0]
    located = locate(frame)
    for offset in range(14, located[2] + 4):
        for bit in range(8):
            flipped = bytearray(frame)
            flipped[offset] ^= 1 << bit
            varies = offset in VARIANT_BYTES[name] or (name == "rping_ipv6" and offset == 14 and bit < 4)
            assert icrc_ok(bytes(flipped), *located) == varies, f"byte {offset}, bit {bit}"


def test_a_missing_icrc_is_not_right(recorded: Callable[[str], list[bytes]]) -> None:
    frame = recorded("rping")[0]
    assert not icrc_ok(frame[:-1], *locate(frame))


BTH = bytes.fromhex("6440ffff 3f 000001 80000102".replace(" ", ""))
REST = bytes(range(64))


def test_icrc_of_native_packets_written_out() -> None:
    lrh = bytes.fromhex("a2 53 0012 0048 0034".replace(" ", ""))  # VL 10
    masked = bytes.fromhex("f2 53 0012 0048 0034 6440ffff ff 000001 80000102".replace(" ", ""))
    assert icrc_of(lrh + BTH + REST, 0, 8, 84, "lrh") == crc32(masked + REST).to_bytes(4, "little")

    addresses = bytes(range(32))
    grh = bytes.fromhex("6abc1234 0058 1b 3f".replace(" ", "")) + addresses
    masked = b"\xff" * 8 + bytes.fromhex("6fffffff 0058 1b ff".replace(" ", "")) + addresses
    masked += bytes.fromhex("6440ffff ff 000001 80000102".replace(" ", ""))
    expected = crc32(masked + REST).to_bytes(4, "little")
    assert icrc_of(grh + BTH + REST, 0, 40, 116, "grh") == expected
    assert icrc_of(lrh + grh + BTH + REST, 8, 48, 124, "grh") == expected, "an LRH below a GRH is not covered"


def test_vcrc_divides_by_its_polynomial_bit_by_bit() -> None:
    data = bytes.fromhex("0002001200480034") + REST
    register = 0xFFFF
    for byte in data:
        for bit in range(8):
            carry = (register & 1) ^ (byte >> bit & 1)
            register = register >> 1 ^ (0xD008 if carry else 0)  # 0x100B with its bits the other way round
    assert vcrc_of(data) == (register ^ 0xFFFF).to_bytes(2, "little")
