"""What Wireshark shows of the CM frames of a capture: tshark's dissection, read through pyshark."""

from __future__ import annotations

import asyncio
from contextlib import closing, suppress
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from ibcmtool.packets import IPV4_MAPPED

if TYPE_CHECKING:
    from collections.abc import Iterator

CM_FRAMES = "infiniband.mad.mgmtclass == 7"


class TsharkError(Exception):
    """tshark is missing, or cannot read the capture; `str()` is one line for people."""


class Shown(NamedTuple):
    """One frame as Wireshark shows it: the hex digits of each field's value, by the field's name."""

    number: int
    fields: dict[str, str]

    def integer(self, name: str) -> int | None:
        """A field's value as a number; None where tshark has none."""
        digits = self.fields.get(name)
        return None if digits is None else int(digits, 16)

    def octets(self, name: str) -> bytes | None:
        """A field's value as bytes; None where tshark has none."""
        digits = self.fields.get(name)
        if digits is None:
            return None
        octets = bytes.fromhex(digits)
        return IPV4_MAPPED + octets if name.endswith("gid_ipv4") else octets


def version() -> str:
    """tshark's version, as "4.0.17". Raises TsharkError where there is no tshark."""
    from pyshark.tshark.tshark import TSharkNotFoundException, get_tshark_version

    try:
        return str(get_tshark_version())
    except TSharkNotFoundException:
        raise TsharkError("tshark is not installed; on Debian: apt install tshark") from None


def shown(path: str) -> Iterator[Shown]:
    """The CM frames of a capture file, as tshark recognises them. Raises TsharkError where it can read none of it."""
    # A loop of our own: pyshark would otherwise ask for one by means that Python 3.12 and later have done away with.
    with closing(asyncio.new_event_loop()) as loop:
        capture = _capture_class()(path, display_filter=CM_FRAMES, keep_packets=False, eventloop=loop)
        any_frame = False
        try:
            for packet in capture:
                any_frame = True
                yield Shown(int(packet.number), _fields(packet))
        finally:
            capture.close()
        # At damage that comes later, tshark and we end alike: our own source tells where it is.
        if capture.exit_code and not any_frame:
            raise TsharkError(f"tshark cannot read it: {capture._last_error_line}")


def _fields(packet: Any) -> dict[str, str]:
    """The fields of the InfiniBand layers; of a field that is there several times, the first."""
    fields: dict[str, str] = {}
    for layer in packet.layers:
        if layer.layer_name == "infiniband":
            # pyshark's own look-up tries every name for every question; its table is right there.
            for name, field in layer._all_fields.items():
                fields.setdefault(name, field.raw_value)
    return fields


@cache
def _capture_class() -> type[Any]:
    """pyshark's FileCapture, which ends its tshark in good order."""
    import pyshark

    class Capture(pyshark.FileCapture):  # type: ignore[misc]
        exit_code: int | None = None

        async def _cleanup_subprocess(self, process: asyncio.subprocess.Process) -> None:
            # pyshark kills a tshark that has closed its output but not been waited for yet. That steals the exit code
            # from asyncio, which then makes one up (255), and pyshark calls it a crash.
            if process.returncode is None and not self._eof_reached:
                with suppress(ProcessLookupError):
                    process.kill()
            self.exit_code = await process.wait()
            self._running_processes.discard(process)

    return Capture
