"""F: what a REQ says of the path, held against itself and against the packet that brought it (IBA 12.7).

All of these are hints: the MAD may take another way than the connection will, and hosts behind routers, LMC or SR-IOV
are known under several addresses. Each is told once for a pair of ports.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Literal, NamedTuple

from ibcmtool.formatting import address, gid, listed
from ibcmtool.model import Address, CmMessage, Connection, Event, Step
from ibcmtool.rules.catalogue import Verdict, rule
from ibcmtool.rules.conditions import first
from ibcmtool.rules.context import Context
from ibcmtool.rules.once import news
from ibcmtool.wire.envelope import envelope
from ibcmtool.wire.readers import layer_size

MEMBERSHIP = 0x8000  # bit of a P_Key: full member
DEFAULT_PARTITION = 0xFFFF
LAST_UNICAST_LID = 0xBFFF
MOST_LMC_BITS = 7  # a port may answer to 2^7 LIDs in a row
LINK_LOCAL = bytes.fromhex("fe80000000000000")
NO_GID = bytes(16)
_ABSENT = (None, NO_GID)
# Where the BTH of a packet without immediate data has its P_Key, from the end of the bytes in front of the MAD.
_BTH_PARTITION_KEY = 2 - layer_size("BTH") - layer_size("DETH")


class Path(NamedTuple):
    """The primary or the alternate path of a REQ; None for what was not captured."""

    local_lid: int | None
    remote_lid: int | None
    local_gid: bytes | None
    remote_gid: bytes | None
    hop_limit: int | None
    subnet_local: int | None

    @classmethod
    def of(cls, request: Any, which: Literal["primary", "alternate"]) -> Path:
        return cls._make(getattr(request, f"{which}_{name}") for name in cls._fields)

    def __bool__(self) -> bool:
        """Whether the REQ has such a path: any address at all."""
        return bool(self.local_lid or self.remote_lid) or not {self.local_gid, self.remote_gid} <= set(_ABSENT)


def _other_partition(message: CmMessage) -> bool:
    used = message.headers[_BTH_PARTITION_KEY : _BTH_PARTITION_KEY + 2]
    asked = message.fields.partition_key
    return used != b"" and asked is not None and (int.from_bytes(used, "big") ^ asked) & ~MEMBERSHIP != 0


@rule(
    "F06",
    "partition-mismatch",
    "A request was sent in another partition than it asks for",
    severity="info",
    on=("REQ", "SIDR_REQ"),
    history=first,
    settings=_other_partition,
    clause="IBA 12.7 (Partition Key), 10.9 (partitions); Linux sends its MADs in the path's partition",
    explanation=(
        "The P_Key in the packet's BTH and the one that the request asks for differ, and the packet's is not that of"
        " the default partition. So the request came through one partition and wants to connect in another; where the"
        " ports share only one of them, it works for the CM and fails for the data. Told once for a pair of ports."
    ),
    false_positives="CMs that send all MADs in the default partition are not told; the membership bit does not count.",
    advice="Compare the consumer's P_Key with the partitions that the subnet manager gave both ports.",
)
def partition_mismatch(event: Event, view: Context) -> Iterable[Verdict]:
    step = event.step
    if step is None or step.message.icrc_ok is False:
        return ()
    message = step.message
    asked, around = message.fields.partition_key, envelope(message)
    used = None if around is None else around.partition_key
    if used is None or used | MEMBERSHIP in (asked | MEMBERSHIP, DEFAULT_PARTITION):
        return ()
    if not news(view, "F06", (message.source, message.destination, asked)):
        return ()
    return (
        Verdict(
            f"The {message.type} asks for P_Key 0x{asked:04x}, but its packet has P_Key 0x{used:04x}.",
            (step,),
            {"partition_key": asked, "bth_partition_key": used},
        ),
    )


def _other_way(connection: Connection, step: Step) -> bool:
    """Whether the packet went by LIDs, or its addresses are not the GIDs of the primary path."""
    message = step.message
    fields, source = message.fields, message.source
    if connection.transport == "InfiniBand" or source.lid is not None:
        return True
    return bool(source.gid != fields.primary_local_gid or message.destination.gid != fields.primary_remote_gid)


@rule(
    "F07",
    "subnet-local",
    "Subnet Local does not fit the rest of the path",
    severity="info",
    on=("REQ",),
    history=first,
    when=_other_way,
    clause="IBA 12.7 (Subnet Local); Linux derives it from the hop limit",
    explanation=(
        "Subnet Local 1 says that both ports are in one subnet: then the hop limit is 0 or 1 and the GID prefixes are"
        " the same. With 0 the way leads through a router, and the remote LID of the REQ means nothing to the receiver"
        " (Linux sends 0xFFFF). A receiver that believes the bit may answer on the wrong way. Judged on InfiniBand, at"
        " the first such REQ of each pair of ports."
    ),
    false_positives=(
        "CMs that always set the bit, whatever the hop limit. The link-local prefix counts as any, and Omni-Path has"
        " LIDs of its own (0 here). Never more than possible."
    ),
    advice="Only worth a look if the answers do not arrive, or the path goes through a router.",
)
def subnet_local(event: Event, view: Context) -> Iterable[Verdict]:
    step = event.step
    if step is None or step.message.icrc_ok is False or event.connection.transport != "InfiniBand":
        return ()
    message, found = step.message, []
    for which in ("primary", "alternate"):
        path = Path.of(message.fields, which)
        if path:
            found += [f"of the {which} path {words}" for words in _contradictions(path)]
    if not found or not news(view, "F07", (message.source, message.destination, len(found))):
        return ()
    sentence = f"Subnet Local {listed(found)}."
    return (Verdict(sentence, (step,), {"contradictions": len(found)}, "possible"),)


def _contradictions(path: Path) -> Iterator[str]:
    if path.subnet_local == 1:
        if path.hop_limit is not None and path.hop_limit > 1:
            yield f"is 1, but its hop limit is {path.hop_limit}"
        prefixes = [g[:8] for g in (path.local_gid, path.remote_gid) if g is not None and g != NO_GID]
        if len(set(prefixes)) > 1 and LINK_LOCAL not in prefixes:
            yield f"is 1, but its GIDs {gid(path.local_gid)} and {gid(path.remote_gid)} have different prefixes"
    elif path.subnet_local == 0 and path.remote_lid is not None and 0 < path.remote_lid <= LAST_UNICAST_LID:
        yield f"is 0, but its remote LID is {path.remote_lid}"


def _with_alternate(message: CmMessage) -> bool:
    fields = message.fields
    if fields.alternate_local_lid or fields.alternate_remote_lid:
        return True
    return bool(fields.alternate_local_gid != NO_GID or fields.alternate_remote_gid != NO_GID)


@rule(
    "F08",
    "alternate-path",
    "An alternate path that cannot help",
    severity="warning",
    on=("REQ",),
    history=first,
    settings=_with_alternate,
    clause="IBA 12.7 (alternate path), 17.2.8 (automatic path migration); Linux cm_req_has_alt_path",
    explanation=(
        "An alternate path with the very addresses of the primary one protects against nothing (in a LAP it is refused"
        " for that, AP status 5). One that names only one of its two ports cannot be loaded. RoCE has no path"
        " migration: what stands there is ignored or refused. Told once for a pair of ports."
    ),
    false_positives=(
        "With LMC two LIDs of one port make two paths: only equal LIDs and GIDs on both sides count. Omni-Path LIDs"
        " stand in the GIDs; both LIDs 0 is no half path."
    ),
    advice="Look at how the connecting consumer gets its alternate path, or leave the path out.",
)
def alternate_path(event: Event, view: Context) -> Iterable[Verdict]:
    connection, step = event.connection, event.step
    if step is None or step.message.icrc_ok is False:
        return ()
    fields, message = step.message.fields, step.message
    path, primary = Path.of(fields, "alternate"), Path.of(fields, "primary")
    if None in path:
        return ()
    if connection.transport != "InfiniBand":
        fault = f"although {connection.transport} has no path migration"
    elif bool(path.local_lid) != bool(path.remote_lid):
        fault = f"with one LID only (local {path.local_lid}, remote {path.remote_lid})"
    elif (path.local_gid == NO_GID) != (path.remote_gid == NO_GID):
        fault = f"with one GID only (local {gid(path.local_gid)}, remote {gid(path.remote_gid)})"
    elif path[:4] == primary[:4]:
        fault = "that is its primary path once more"
    else:
        return ()
    if not news(view, "F08", (message.source, message.destination)):
        return ()
    return (
        Verdict(
            f"The REQ has an alternate path {fault}.",
            (step,),
            {
                "local_lid": path.local_lid,
                "remote_lid": path.remote_lid,
                "local_gid": gid(path.local_gid),
                "remote_gid": gid(path.remote_gid),
            },
        ),
    )


@rule(
    "F09",
    "path-not-packet",
    "A REQ names other addresses than its packet has",
    severity="info",
    on=("REQ",),
    history=first,
    when=_other_way,
    clause="IBA 12.7 (Primary Local and Remote Port LID, GID)",
    explanation=(
        "The primary path of the REQ is from and to other ports than the packet that brought it. Allowed, as a CM may"
        " speak for another port. But where addresses are translated, tunnelled or cloned, the REQ names ports that the"
        " receiver cannot reach: it refuses the GID (REJ 12), or the data goes astray. Told once for a pair of ports."
    ),
    false_positives=(
        "Routers, SR-IOV alias GIDs and several ports of one host look like this (possible only). GIDs with the same"
        " interface id, LIDs within 2^7 of each other (LMC), LIDs of a routed path, 0 and permissive LIDs are not told."
    ),
    advice="If connections fail: compare the addresses; look for NAT, a tunnel, or a bond that moved.",
)
def path_not_packet(event: Event, view: Context) -> Iterable[Verdict]:
    step = event.step
    if step is None or step.message.icrc_ok is False:
        return ()
    message, path = step.message, Path.of(step.message.fields, "primary")
    found = []
    for side, port, path_gid, path_lid in (
        ("from", message.source, path.local_gid, path.local_lid),
        ("to", message.destination, path.remote_gid, path.remote_lid),
    ):
        if _other_gid(port, path_gid):
            found.append(f"{side} {gid(path_gid)}, its packet {side} {gid(port.gid)}")
        elif path.subnet_local != 0 and _other_lid(port, path_lid):
            found.append(f"{side} LID {path_lid}, its packet {side} LID {port.lid}")
    if not found or not news(view, "F09", (message.source, message.destination)):
        return ()
    evidence = {"source": address(message.source), "destination": address(message.destination)}
    return (Verdict(f"The REQ's path goes {listed(found)}.", (step,), evidence, "possible"),)


def _other_gid(port: Address, path_gid: bytes | None) -> bool:
    if port.gid is None or path_gid is None or path_gid == NO_GID:
        return False
    return port.gid[8:] != path_gid[8:]


def _other_lid(port: Address, lid: int | None) -> bool:
    if port.lid is None or lid is None or not (0 < lid <= LAST_UNICAST_LID and 0 < port.lid <= LAST_UNICAST_LID):
        return False
    return (port.lid ^ lid) >> MOST_LMC_BITS != 0
