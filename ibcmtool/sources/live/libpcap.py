"""libpcap, by the ctypes prototypes that Scapy ships (scapy.libs.winpcapy, which despite its name is for all of them).

Scapy's own sockets on top of them have no immediate mode on Linux, times as floats, no choice of the buffer and no drop
counters; so the handle is made here, of the same functions.
"""

from __future__ import annotations

from collections.abc import Iterator
from ctypes import POINTER, byref, c_int, c_ubyte, c_void_p, create_string_buffer, string_at
from pathlib import Path
from typing import Any

from ibcmtool.sources.errors import SourceError

NANOSECONDS = 1  # PCAP_TSTAMP_PRECISION_NANO
UNKNOWN_NETMASK = -1  # PCAP_NETMASK_UNKNOWN
LINK_TYPES = {12: 101, 14: 101}  # raw IP: libpcap's numbers on Linux and on OpenBSD, and that of files
TIMEOUT = 100  # ms; without a meaning in immediate mode, but 0 is not allowed everywhere

# What Scapy has no prototypes for.
_PROTOTYPES: dict[str, tuple[Any, list[Any]]] = {
    "pcap_set_immediate_mode": (c_int, [c_void_p, c_int]),
    "pcap_set_tstamp_precision": (c_int, [c_void_p, c_int]),
    "pcap_get_tstamp_precision": (c_int, [c_void_p]),
}


class PcapError(Exception):
    """`str()` is what libpcap says of it; status: its PCAP_ERROR_ number, -1 where it has none."""

    def __init__(self, text: str, status: int = -1) -> None:
        super().__init__(text)
        self.status = status


class Handle:
    """A live capture on one device that lets a packet through as soon as it is there. Belongs to one thread."""

    def __init__(self, device: str, snap_length: int, buffer_size: int) -> None:
        """Raises OSError where libpcap is not installed, PcapError where the device cannot be captured from."""
        self._lib = lib = _library()
        text = create_string_buffer(lib.PCAP_ERRBUF_SIZE)
        self._pcap = lib.pcap_create(device.encode(), text)
        if not self._pcap:
            raise PcapError(_text(text.value))
        try:
            lib.pcap_set_snaplen(self._pcap, snap_length)
            lib.pcap_set_promisc(self._pcap, 1)  # a mirror port gets what is addressed to others
            lib.pcap_set_timeout(self._pcap, TIMEOUT)
            lib.pcap_set_buffer_size(self._pcap, buffer_size)
            _function("pcap_set_immediate_mode")(self._pcap, 1)
            _function("pcap_set_tstamp_precision")(self._pcap, NANOSECONDS)
            status = lib.pcap_activate(self._pcap)
            if status < 0:
                raise PcapError(self._said() or _text(lib.pcap_statustostr(status)), status)
            if lib.pcap_setnonblock(self._pcap, 1, text) < 0:
                raise PcapError(_text(text.value))
        except BaseException:
            lib.pcap_close(self._pcap)
            raise
        link_type: int = lib.pcap_datalink(self._pcap)
        self.link_type = LINK_TYPES.get(link_type, link_type)
        precision = _function("pcap_get_tstamp_precision")(self._pcap)
        self._unit = 1 if precision == NANOSECONDS else 1000
        self._header = POINTER(lib.pcap_pkthdr)()
        self._data = POINTER(c_ubyte)()

    def set_filter(self, expression: str) -> None:
        """Let the kernel hand out only what matches. Raises PcapError."""
        program = self._lib.bpf_program()
        if self._lib.pcap_compile(self._pcap, byref(program), expression.encode(), 1, UNKNOWN_NETMASK) < 0:
            raise PcapError(self._said())
        try:
            if self._lib.pcap_setfilter(self._pcap, byref(program)) < 0:
                raise PcapError(self._said())
        finally:
            self._lib.pcap_freecode(byref(program))

    def fileno(self) -> int:
        """What to wait for."""
        return int(self._lib.pcap_get_selectable_fd(self._pcap))

    def packets(self) -> Iterator[tuple[int, bytes, int]]:
        """Those that are there now: time (ns since the epoch), data, length on the wire.

        Raises PcapError when the device has gone.
        """
        following, pcap = self._lib.pcap_next_ex, self._pcap
        header, data, unit = self._header, self._data, self._unit
        header_at, data_at = byref(header), byref(data)
        while (status := following(pcap, header_at, data_at)) == 1:
            head = header.contents
            stamp = head.ts
            time = stamp.tv_sec * 1_000_000_000 + stamp.tv_usec * unit
            yield time, string_at(data, head.caplen), head.len
        if status < 0:
            raise PcapError(self._said(), status)

    def dropped(self) -> int:
        """Packets that passed the filter and found the buffer full."""
        counts = self._lib.pcap_stat()
        return int(counts.ps_drop) if self._lib.pcap_stats(self._pcap, byref(counts)) == 0 else 0

    def close(self) -> None:
        self._lib.pcap_close(self._pcap)

    def _said(self) -> str:
        return _text(self._lib.pcap_geterr(self._pcap))


def sniffs_rdma(source: str) -> bool:
    """Whether the libpcap of this host was built to capture from RDMA devices: it brings libibverbs with it then.

    Raises SourceError, which names the source, where libpcap is not installed.
    """
    try:
        _library()
    except OSError:
        hint = "apt install libpcap0.8, or dnf install libpcap"
        raise SourceError(source, "libpcap is not installed", hint) from None
    return "/libibverbs." in Path("/proc/self/maps").read_text()


def _library() -> Any:
    from scapy.libs import winpcapy  # it raises OSError where there is no libpcap

    return winpcapy


def _function(name: str) -> Any:
    function = getattr(_library()._lib, name)
    function.restype, function.argtypes = _PROTOTYPES[name]
    return function


def _text(said: bytes | None) -> str:
    """libpcap's words as the end of a line of ours."""
    return " ".join((said or b"").decode(errors="replace").split()).rstrip(".")
