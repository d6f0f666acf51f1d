"""The RDMA ports of this host, as sysfs shows them: /sys/class/infiniband/DEV/ports/N."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path("/")
DEVICES = "sys/class/infiniband"


class Port(NamedTuple):
    """One port of a device."""

    device: str
    number: int
    link_layer: str  # InfiniBand or Ethernet
    lid: int | None  # None on Ethernet, and where the subnet manager has given none yet
    state: str  # ACTIVE, DOWN, ...
    managed: bool  # ib_cm holds the class CommMgt here
    path: Path

    @property
    def name(self) -> str:
        return f"{self.device}:{self.number}"


def ports(root: Path = ROOT) -> list[Port]:
    """All ports, by device and number; none where no RDMA device is, or none may be looked at."""
    found = [port_at(path) for path in (root / DEVICES).glob("*/ports/*") if path.name.isdigit()]
    return sorted(found, key=lambda port: (port.device, port.number))


def gids(port: Port) -> Iterator[bytes]:
    """The port's own GIDs, without the empty entries."""
    entries = sorted((port.path / "gids").glob("*"), key=lambda path: (len(path.name), path.name))
    for entry in entries:
        gid = gid_of(text_of(entry))
        if gid is not None:
            yield gid


def net_devices(port: Port) -> list[str]:
    """The network interfaces that carry the port's GIDs (RoCE), the first one first."""
    names = map(text_of, sorted((port.path / "gid_attrs" / "ndevs").glob("*")))
    return list(dict.fromkeys(filter(None, names)))


def text_of(path: Path) -> str:
    """What a file of sysfs says, "" where it cannot be read."""
    try:
        return path.read_text().strip()
    except (OSError, UnicodeDecodeError):
        return ""


def port_at(path: Path, read: Callable[[Path], str] = text_of) -> Port:
    """The port of a folder DEV/ports/N; read: gives the text of a file of sysfs."""
    link_layer = read(path / "link_layer")
    return Port(
        path.parent.parent.name,
        int(path.name),
        link_layer,
        lid_of(read(path / "lid")) if link_layer != "Ethernet" else None,
        read(path / "state").partition(": ")[2],
        (path / "cm_rx_msgs").is_dir(),
        path,
    )


def lid_of(text: str) -> int | None:
    """A LID as sysfs writes it; None for 0, and for what is none."""
    try:
        return int(text, 0) or None
    except ValueError:
        return None


def gid_of(text: str) -> bytes | None:
    """A GID as sysfs writes it; None for an empty entry, and for what is none."""
    try:
        gid = bytes.fromhex(text.replace(":", ""))
    except ValueError:
        return None
    return gid if len(gid) == 16 and any(gid) else None
