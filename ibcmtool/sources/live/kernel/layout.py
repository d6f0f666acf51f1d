"""Where the kernel keeps what the probes fetch: its structures, and from them the arguments of the probes.

The running kernel's BTF tells exactly. Without it, what has stood at the same place since Linux 4.5, when
cm_recv_handler got its third argument, is taken from a table, and more for a kernel that it was measured on. A wrong
offset shows with the first MAD (KernelSource checks each), so a table can mislead nobody for long.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from ibcmtool.sources.live.kernel.btf import Btf, BtfError, Member

RECEIVES = "cm_recv_handler"  # ib_cm: called with every MAD of class CommMgt that is received
SENDS = "ib_post_send_mad"  # ib_core: called with every MAD of every class that is to be sent

Places = Callable[[str, str], Member | None]
Table = Mapping[tuple[str, str], Member]

# (structure, member): the same in Linux 4.5 to 6.18 on machines of 64 bits.
LASTING: Table = {
    ("ib_mad_recv_wc", "wc"): Member(0, 8),
    ("ib_mad_recv_wc", "recv_buf.grh"): Member(24, 8),
    ("ib_mad_recv_wc", "recv_buf.mad"): Member(32, 8),
    ("ib_mad_send_buf", "mad"): Member(8, 8),
}
# Of one version, as its BTF tells (pahole -C STRUCTURE /sys/kernel/btf/ib_cm shows the same).
MEASURED: Mapping[tuple[int, int], Table] = {
    (6, 1): {
        ("ib_mad_send_buf", "mad_agent"): Member(16, 8),
        ("ib_mad_send_buf", "ah"): Member(24, 8),
        ("ib_mad_send_buf", "context"): Member(32, 16),
        ("ib_mad_agent", "device"): Member(0, 8),
        ("ib_mad_agent", "recv_handler"): Member(16, 8),
        ("ib_mad_agent", "port_num"): Member(72, 1),
        ("ib_wc", "slid"): Member(40, 4),
        ("ib_wc", "wc_flags"): Member(44, 4),
        ("ib_wc", "dlid_path_bits"): Member(51, 1),
        ("ib_device", "name"): Member(1048, 64),
        ("ib_ah", "sgid_attr"): Member(24, 8),
        ("ib_gid_attr", "gid"): Member(16, 16),
        ("cm_id_private", "av.ah_attr.grh.dgid"): Member(200, 16),
        ("cm_id_private", "av.ah_attr.ah_flags"): Member(232, 1),
        ("cm_id_private", "av.ah_attr.ib.dlid"): Member(240, 2),
    },
}
FIRST, LAST = (4, 20), (6, 18)  # probes fetch arguments and arrays since 4.20; what is newer than 6.18 is not known


class UnknownLayoutError(Exception):
    """This kernel's structures are not known; `str()` says which kernel, and what is missing."""


class Layout(NamedTuple):
    """What the two probes fetch: name and fetch argument, in the order in which they print it."""

    origin: str  # "BTF", or the kernels of the table
    receive: tuple[tuple[str, str], ...]
    send: tuple[tuple[str, str], ...]


def layout(btf: Path, release: str, *, changed: bool) -> Layout:
    """The layout of the running kernel. Raises UnknownLayoutError.

    btf: /sys/kernel/btf; release: as of uname -r; changed: ib_cm or ib_core is not the one that came with it.
    """
    if (btf / "vmlinux").exists():
        try:
            return _by_btf(btf)
        except (BtfError, OSError, UnknownLayoutError) as error:
            reason = f"its BTF does not tell ({error})"
    else:
        reason = "it has no BTF"
    found = re.match(r"(\d+)\.(\d+)", release)
    version = (int(found[1]), int(found[2])) if found is not None else (0, 0)
    if not FIRST <= version <= LAST:
        raise UnknownLayoutError(f"the structures of Linux {release} are not known: {reason}")
    measured = {} if changed else MEASURED.get(version, {})
    table = {**LASTING, **measured}
    origin = f"a table for Linux {version[0]}.{version[1]}" if measured else "a table for Linux 4.5 and newer"
    return _layout(origin, lambda *place: table.get(place), receive=3, send=1)


def _by_btf(folder: Path) -> Layout:
    kernel = Btf((folder / "vmlinux").read_bytes())
    cm, core = (_module(folder / name, kernel) for name in ("ib_cm", "ib_core"))
    received, sent = cm.parameters(RECEIVES), core.parameters(SENDS)
    if received is None or sent is None:
        raise UnknownLayoutError(f"{RECEIVES if received is None else SENDS} is not in it")
    if "ib_mad_recv_wc" not in received or "ib_mad_send_buf" not in sent:
        raise UnknownLayoutError(f"the arguments of {RECEIVES} and {SENDS} are others")
    receive, send = received.index("ib_mad_recv_wc") + 1, sent.index("ib_mad_send_buf") + 1
    return _layout("BTF", cm.member, receive, send)


def _module(path: Path, kernel: Btf) -> Btf:
    """The types of a module; one that is built in has none of its own."""
    return Btf(path.read_bytes(), kernel) if path.exists() else kernel


def _layout(origin: str, places: Places, receive: int, send: int) -> Layout:
    """The fetch arguments: `+offset(+offset($argN))` reads from the outside what is written from the inside."""

    def fetch(start: str, *steps: tuple[str, str] | int, form: str = "") -> str | None:
        """The last step's member (or what is at that offset), through pointers; None where one of them is unknown.

        form: how to print it; by default as a hex number of its own size.
        """
        text, size = start, 8
        for step in steps:
            place = Member(step, 8) if isinstance(step, int) else places(*step)
            if place is None:
                return None
            text, size = f"+{place.offset}({text})", place.size
        return f"{text}:{form or f'x{8 * size}'}"

    wc, buffer, agent = f"$arg{receive}", f"$arg{send}", "$arg1"
    mad, grh, sent = ("ib_mad_recv_wc", "recv_buf.mad"), ("ib_mad_recv_wc", "recv_buf.grh"), ("ib_mad_send_buf", "mad")
    if None in (places(*mad), places(*grh), places(*sent)):
        raise UnknownLayoutError("ib_mad_recv_wc or ib_mad_send_buf has other members")
    work, sender, device = ("ib_mad_recv_wc", "wc"), ("ib_mad_send_buf", "mad_agent"), ("ib_mad_agent", "device")
    of_id = ("ib_mad_send_buf", "context")  # ib_cm's cm_id_private, or nothing where a MAD is answered without state
    gid_of = (("ib_mad_send_buf", "ah"), ("ib_ah", "sgid_attr"))
    return Layout(
        origin,
        receive=_known(
            mad=fetch(wc, mad, 0, form="x64[32]"),
            grh=fetch(wc, grh, 0, form="x64[5]"),
            flags=fetch(wc, work, ("ib_wc", "wc_flags")),
            slid=fetch(wc, work, ("ib_wc", "slid")),
            path=fetch(wc, work, ("ib_wc", "dlid_path_bits")),
            port=fetch(agent, ("ib_mad_agent", "port_num")),
            device=fetch(agent, device, ("ib_device", "name"), form="string"),
        ),
        send=_known(
            cls=fetch(buffer, sent, 1, form="u8"),
            mad=fetch(buffer, sent, 0, form="x64[32]"),
            # A pointer that is null makes what is fetched through it garbage, so the pointers are fetched, too.
            id=fetch(buffer, of_id, form="x64"),
            dgid=fetch(buffer, of_id, ("cm_id_private", "av.ah_attr.grh.dgid"), form="x64[2]"),
            flags=fetch(buffer, of_id, ("cm_id_private", "av.ah_attr.ah_flags")),
            dlid=fetch(buffer, of_id, ("cm_id_private", "av.ah_attr.ib.dlid")),
            attr=fetch(buffer, *gid_of),
            sgid=fetch(buffer, *gid_of, ("ib_gid_attr", "gid"), form="x64[2]"),
            port=fetch(buffer, sender, ("ib_mad_agent", "port_num")),
            by=fetch(buffer, sender, ("ib_mad_agent", "recv_handler"), form="symbol"),
            device=fetch(buffer, sender, device, ("ib_device", "name"), form="string"),
            comm="$comm",
        ),
    )


def _known(**arguments: str | None) -> tuple[tuple[str, str], ...]:
    return tuple((name, text) for name, text in arguments.items() if text is not None)
