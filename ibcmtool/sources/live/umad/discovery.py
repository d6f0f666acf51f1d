"""The ports that ib_umad offers, as sysfs shows them: /sys/class/infiniband_mad/umadN says which port is which.

Everything is read with the C library's `open` and `opendir`, so that the simulated ports of umad2sim are found as well.
"""

from __future__ import annotations

import ctypes
import os
from pathlib import Path
from typing import NamedTuple

from ibcmtool.packets import Address
from ibcmtool.sources.live.ports import DEVICES, ROOT, Port, gid_of, lid_of, port_at

MADS = "sys/class/infiniband_mad"
NODES = "dev/infiniband"


class UmadPort(NamedTuple):
    """A port and its device file."""

    port: Port
    node: str  # path


def umad_ports(root: Path = ROOT) -> list[UmadPort]:
    """All of them, by device and number; none where ib_umad is not loaded."""
    found = []
    for name in _listed(root / MADS):
        device, number = _text(root / MADS / name / "ibdev"), _text(root / MADS / name / "port")
        if name.startswith("umad") and device and number.isdigit():
            found.append(UmadPort(_port(root, device, int(number)), str(root / NODES / name)))
    return sorted(found, key=lambda one: (one.port.device, one.port.number))


def abi_version(root: Path = ROOT) -> int | None:
    """None where ib_umad is not loaded."""
    text = _text(root / MADS / "abi_version")
    return int(text) if text.isdigit() else None


def own_address(port: Port, gid_index: int | None, path_bits: int) -> Address:
    """The address at which a MAD reached this port: by one of its GIDs, or by its LID only (None)."""
    gid = gid_of(_text(port.path / "gids" / str(gid_index))) if gid_index is not None else None
    if port.link_layer == "Ethernet":
        return Address(gid)
    lid = lid_of(_text(port.path / "lid"))
    return Address(gid, lid | path_bits if lid is not None else None)


def _port(root: Path, device: str, number: int) -> Port:
    port = port_at(root / DEVICES / device / "ports" / str(number), _text)
    return port if port.link_layer else port._replace(link_layer="InfiniBand")  # the simulator does not say


def _listed(path: Path) -> list[str]:
    try:
        return os.listdir(path)  # noqa: PTH208 (pathlib looks at the directory in ways that umad2sim does not know)
    except OSError:
        return []


def _text(path: Path) -> str:
    """What a file says, "" where it cannot be read."""
    libc = ctypes.CDLL(None)
    fd = libc.open(os.fsencode(path), os.O_RDONLY | os.O_CLOEXEC)
    if fd < 0:
        return ""
    try:
        return os.read(fd, 4096).decode(errors="replace").strip()
    except OSError:
        return ""
    finally:
        os.close(fd)
