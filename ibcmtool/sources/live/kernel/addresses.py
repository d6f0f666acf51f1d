"""Between whom a MAD went, which the MAD itself does not say.

A MAD that came brings its GRH (on RoCE v2 over IPv4 the IPv4 header, in the last 20 bytes) or its source LID. Of one
that is sent, ib_cm knows the way; an answer without state goes back to where the request with its TransactionID came
from, and where the layout of the kernel does not tell more, the paths of the REQ and what was seen before must do.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from pathlib import Path
from typing import NamedTuple

from ibcmtool.packets import IPV4_MAPPED, Address
from ibcmtool.sources.live.kernel.parse import ReceivedMad, SentMad
from ibcmtool.sources.live.ports import ROOT, Port, gids, ports
from ibcmtool.wire.header_readers import read_gids, read_message_ids, read_primary_path
from ibcmtool.wire.readers import layout

MOST = 20_000  # pairs remembered
FRESH = 10.0  # seconds that what sysfs says of the ports is believed
WITH_GRH = 1  # ib_wc_flags
IPV4_AT = 20  # in the 40 bytes of a GRH
IPV4_UDP, ROUTED = (0x45, 17), (17, 0x1B)  # version with length and protocol; next header: UDP or an InfiniBand header
REQ = 0x10

_offsets = {slot.name: slot.bit_offset // 8 for slot in layout("GRH")}
NEXT_HEADER = _offsets["next_header"]


class Pair(NamedTuple):
    """Both ends of a way."""

    ours: Address
    theirs: Address


class Addresses:
    """Of everything that the probes see. Remembers, bounded, whose a TransactionID or Communication ID was."""

    def __init__(self, root: Path = ROOT) -> None:
        self._root = root
        self._pairs: OrderedDict[tuple[str, int], Pair] = OrderedDict()
        self._ports: dict[tuple[str, int], Port] = {}
        self._looked = float("-inf")

    def received(self, record: ReceivedMad) -> Pair:
        """Where a MAD came from, and our end of that way."""
        port = self._port(record.device, record.port)
        sgid, dgid = _of_grh(record)
        if port is None or port.link_layer == "Ethernet":
            pair = Pair(Address(dgid), Address(sgid))
        else:
            own = port.lid | (record.path or 0) if port.lid is not None else None
            pair = Pair(Address(dgid, own), Address(sgid, record.slid or None))
        tid, _, _, ours = read_message_ids(record.mad, 0)
        self._remember(tid, ours, pair)
        return pair

    def sent(self, record: SentMad) -> Pair:
        """Where a MAD goes, and our end of that way."""
        tid, attribute, ours, _ = read_message_ids(record.mad, 0)
        port = self._port(record.device, record.port)
        ethernet = port is None or port.link_layer == "Ethernet"
        pair = self._of_ib_cm(record, port) or (self._of_req(record, ethernet=ethernet) if attribute == REQ else None)
        if pair is None:
            pair = self._pairs.get(("tid", tid)) or self._pairs.get(("id", ours))
        if pair is None:
            gid = record.sgid or (next(gids(port), None) if port is not None and ethernet else None)
            pair = Pair(Address(gid, port.lid if port is not None else None), Address())
        self._remember(tid, ours, pair)
        return pair

    def _of_ib_cm(self, record: SentMad, port: Port | None) -> Pair | None:
        """By the address that ib_cm has in its record of the connection."""
        if port is None or record.routed is None:
            return None
        if port.link_layer == "Ethernet":
            return Pair(Address(record.sgid), Address(record.dgid)) if record.sgid and record.dgid else None
        if not record.dlid:
            return None
        sgid, dgid = (record.sgid, record.dgid) if record.routed else (None, None)
        return Pair(Address(sgid, port.lid), Address(dgid, record.dlid))

    def _of_req(self, record: SentMad, *, ethernet: bool) -> Pair:
        local_lid, remote_lid, local_gid, remote_gid, local = read_primary_path(record.mad, 0)
        if ethernet:
            return Pair(Address(local_gid), Address(remote_gid))
        # A subnet-local path needs no GRH, and packets of ib_cm have none then.
        sgid, dgid = (None, None) if local else (local_gid, remote_gid)
        return Pair(Address(sgid, local_lid), Address(dgid, remote_lid))

    def _remember(self, tid: int, comm_id: int, pair: Pair) -> None:
        self._pairs["tid", tid] = pair
        self._pairs.move_to_end(("tid", tid))
        if comm_id:
            self._pairs["id", comm_id] = pair
            self._pairs.move_to_end(("id", comm_id))
        while len(self._pairs) > MOST:
            self._pairs.popitem(last=False)

    def _port(self, device: str, number: int | None) -> Port | None:
        """By name; where the layout does not tell it, the only one, or without its LID one of many that are alike."""
        now = time.monotonic()
        if now - self._looked > FRESH:
            self._looked = now
            self._ports = {(port.device, port.number): port for port in ports(self._root)}
        if device and number is not None:
            return self._ports.get((device, number))
        known = list(self._ports.values())
        if len(known) > 1 and len({port.link_layer for port in known}) == 1:
            return known[0]._replace(lid=None)
        return known[0] if len(known) == 1 else None


def _of_grh(record: ReceivedMad) -> tuple[bytes | None, bytes | None]:
    """Source and destination GID; None without a GRH. A buffer that was used before may hold an older one."""
    grh = record.grh
    if record.flags is not None and not record.flags & WITH_GRH:
        return None, None
    if (grh[IPV4_AT], grh[IPV4_AT + 9]) == IPV4_UDP:
        source, destination = grh[IPV4_AT + 12 : IPV4_AT + 16], grh[IPV4_AT + 16 : IPV4_AT + 20]
        return IPV4_MAPPED + source, IPV4_MAPPED + destination
    if grh[0] >> 4 == 6 and grh[NEXT_HEADER] in ROUTED:
        sgid, dgid = read_gids(grh, 0)
        return sgid, dgid
    return None, None
