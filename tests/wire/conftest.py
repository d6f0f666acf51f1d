"""The capture filters, as libpcap runs them."""

from __future__ import annotations

from collections.abc import Callable
from ctypes import POINTER, byref, c_int, c_void_p

import pytest

from ibcmtool.wire.links import LINK_TYPES

DLTS = {101: 12}  # libpcap's own number of raw IP on Linux; of the others it is that of the file format


@pytest.fixture(scope="session")
def passes() -> Callable[[int, bytes], bool]:
    """Whether a frame of a link type passes the filter for it."""
    winpcapy = pytest.importorskip("scapy.libs.winpcapy", exc_type=OSError, reason="libpcap is not installed")
    decide = winpcapy._lib.pcap_offline_filter
    decide.restype, decide.argtypes = c_int, [c_void_p, POINTER(winpcapy.pcap_pkthdr), c_void_p]
    programs = {}
    for number, link in LINK_TYPES.items():
        handle = winpcapy.pcap_open_dead(DLTS.get(number, number), 65535)
        program = programs[number] = winpcapy.bpf_program()
        compiled = winpcapy.pcap_compile(handle, byref(program), link.capture_filter().encode(), 1, -1)
        said = winpcapy.pcap_geterr(handle)
        winpcapy.pcap_close(handle)
        assert compiled == 0, said

    def passes(number: int, data: bytes) -> bool:
        header = winpcapy.pcap_pkthdr(caplen=len(data), len=len(data))
        return bool(decide(byref(programs[number]), byref(header), data))

    return passes
