"""F06-F09: what a REQ says of the path, held against itself and against the packet that brought it (IBA 12.7).

All of these are hints: the MAD may take another way than the connection will, and hosts behind routers, LMC or SR-IOV
are known under several addresses. Each is reported once for a pair of ports.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Literal, NamedTuple

from ibcmtool.evidence import weakened
from ibcmtool.formatting import address, gid, listed
from ibcmtool.messages import Req, SidrReq
from ibcmtool.model import Connection, Step
from ibcmtool.packets import Address
from ibcmtool.rules.api import Context, Verdict, Verdicts, rule
from ibcmtool.rules.conditions import first
from ibcmtool.rules.steps import fields_of
from ibcmtool.values import Gid
from ibcmtool.wire.envelope import envelope
from ibcmtool.wire.readers import layer_size

MEMBERSHIP: Final = 0x8000  # bit of a P_Key: full member
DEFAULT_PARTITION: Final = 0xFFFF
LAST_UNICAST_LID: Final = 0xBFFF
MOST_LMC_BITS = 7  # a port may answer to 2^7 LIDs in a row
LINK_LOCAL: Final = bytes.fromhex("fe80000000000000")
NO_GID: Final = bytes(16)


class Path(NamedTuple):
    """The primary or the alternate path of a REQ; None for what was not captured."""

    local_lid: int | None
    remote_lid: int | None
    local_gid: bytes | None
    remote_gid: bytes | None
    hop_limit: int | None
    subnet_local: int | None

    def exists(self) -> bool:
        """Whether the REQ has such a path: any address at all."""
        return any(self[:2]) or not {self.local_gid, self.remote_gid} <= {None, NO_GID}


def path_of(step: Step, which: Literal["primary", "alternate"]) -> Path:
    request = fields_of(step, Req)
    return Path._make(getattr(request, f"{which}_{name}") for name in Path._fields)


def _notable(connection: Connection, step: Step) -> bool:
    """One look for F07-F09: the packet went by LIDs, or not by the GIDs of the primary path; an alternate path."""
    message = step.message
    fields, source = message.fields, message.source
    if not isinstance(fields, Req) or connection.transport == "InfiniBand" or source.lid is not None:
        return True
    if source.gid != fields.primary_local_gid or message.destination.gid != fields.primary_remote_gid:
        return True
    if fields.alternate_local_lid or fields.alternate_remote_lid:
        return True
    return fields.alternate_local_gid != NO_GID or fields.alternate_remote_gid != NO_GID


F06 = rule(
    "F06",
    "partition-mismatch",
    "A request was sent in another partition than it asks for",
    severity="info",
    clause="IBA 12.7 (Partition Key), 10.9 (partitions); Linux sends its MADs in the path's partition",
    explanation="The P_Key in the packet's BTH and the one that the request asks for differ, and the packet's is not"
    " that of the default partition. So the request came through one partition and wants to connect in another; where"
    " the ports share only one of them, it works for the CM and fails for the data. Reported once for a pair of ports.",
    false_positives="CMs that send all MADs in the default partition are not reported; the membership bit does not"
    " count.",
    advice="Compare the consumer's P_Key with the partitions that the subnet manager gave both ports.",
)

# Where the BTH of a packet without immediate data has its P_Key, from the end of the bytes in front of the MAD.
_PARTITION_KEY: Final = 2 - layer_size("BTH") - layer_size("DETH")


def _asked(step: Step) -> int | None:
    fields = step.message.fields
    return fields.partition_key if isinstance(fields, (Req, SidrReq)) else None


def _other_partition(connection: Connection, step: Step) -> bool:
    used, asked = step.message.headers[_PARTITION_KEY : _PARTITION_KEY + 2], _asked(step)
    return used != b"" and asked is not None and (int.from_bytes(used, "big") ^ asked) & ~MEMBERSHIP != 0


@F06.on_step("REQ", "SIDR_REQ", history=first, when=_other_partition, needs=("intact",), once="subject")
def partition_mismatch(connection: Connection, step: Step, context: Context) -> Verdicts:
    message = step.message
    asked, around = _asked(step), envelope(message)
    if asked is None or around is None:
        return
    used = around.partition_key
    if used | MEMBERSHIP in (asked | MEMBERSHIP, DEFAULT_PARTITION):
        return
    yield Verdict(
        f"The {message.type} asks for P_Key 0x{asked:04x}, but its packet has P_Key 0x{used:04x}.",
        {"partition_key": asked, "bth_partition_key": used},
        subject=(message.source, message.destination, asked),
    )


F07 = rule(
    "F07",
    "subnet-local",
    "Subnet Local does not fit the rest of the path",
    severity="info",
    clause="IBA 12.7 (Subnet Local); Linux derives it from the hop limit",
    explanation="Subnet Local 1 says that both ports are in one subnet: then the hop limit is 0 or 1 and the GID"
    " prefixes are the same. With 0 the way leads through a router, and the remote LID of the REQ means nothing to the"
    " receiver (Linux sends 0xFFFF). A receiver that believes the bit may answer on the wrong way. Judged on"
    " InfiniBand, at the first such REQ of each pair of ports.",
    false_positives="CMs that always set the bit, whatever the hop limit. The link-local prefix counts as any, and"
    " Omni-Path has LIDs of its own (0 here). Never more than possible.",
    advice="Only worth a look if the answers do not arrive, or the path goes through a router.",
)


@F07.on_step("REQ", history=first, when=_notable, needs=("intact",), once="subject")
def subnet_local(connection: Connection, step: Step, context: Context) -> Verdicts:
    message = step.message
    if connection.transport != "InfiniBand":
        return
    found = [f"of the primary path {words}" for words in _contradictions(path_of(step, "primary"))]
    found += [f"of the alternate path {words}" for words in _contradictions(path_of(step, "alternate"))]
    if found:
        yield Verdict(
            f"Subnet Local {listed(found)}.",
            {"contradictions": len(found)},
            (weakened("meaning"),),
            subject=(message.source, message.destination, len(found)),
        )


def _contradictions(path: Path) -> Iterator[str]:
    if not path.exists():
        return
    if path.subnet_local == 1:
        if path.hop_limit is not None and path.hop_limit > 1:
            yield f"is 1, but its hop limit is {path.hop_limit}"
        prefixes = {g[:8] for g in (path.local_gid, path.remote_gid) if g is not None and g != NO_GID}
        if len(prefixes) > 1 and LINK_LOCAL not in prefixes:
            yield f"is 1, but its GIDs {gid(path.local_gid)} and {gid(path.remote_gid)} have different prefixes"
    elif path.subnet_local == 0 and path.remote_lid is not None and 0 < path.remote_lid <= LAST_UNICAST_LID:
        yield f"is 0, but its remote LID is {path.remote_lid}"


F08 = rule(
    "F08",
    "alternate-path",
    "An alternate path that cannot help",
    severity="warning",
    clause="IBA 12.7 (alternate path), 17.2.8 (automatic path migration); Linux cm_req_has_alt_path",
    explanation="An alternate path with the very addresses of the primary one protects against nothing (in a LAP it is"
    " refused for that, AP status 5). One that names only one of its two ports cannot be loaded. RoCE has no path"
    " migration: what stands there is ignored or refused. Reported once for a pair of ports.",
    false_positives="With LMC two LIDs of one port make two paths: only equal LIDs and GIDs on both sides count."
    " Omni-Path LIDs stand in the GIDs; both LIDs 0 is no half path.",
    advice="Look at how the connecting consumer gets its alternate path, or leave the path out.",
)


@F08.on_step("REQ", history=first, when=_notable, needs=("intact",), once="subject")
def alternate_path(connection: Connection, step: Step, context: Context) -> Verdicts:
    message = step.message
    path = path_of(step, "alternate")
    fault = _useless(connection, path, path_of(step, "primary")) if path.exists() and None not in path else None
    if fault is not None:
        yield Verdict(
            f"The REQ has an alternate path {fault}.",
            {
                "local_lid": path.local_lid,
                "remote_lid": path.remote_lid,
                "local_gid": Gid(path.local_gid or NO_GID),
                "remote_gid": Gid(path.remote_gid or NO_GID),
            },
            subject=(message.source, message.destination),
        )


def _useless(connection: Connection, path: Path, primary: Path) -> str | None:
    """Why an alternate path cannot help."""
    if connection.transport != "InfiniBand":
        return f"although {connection.transport} has no path migration"
    if bool(path.local_lid) != bool(path.remote_lid):
        return f"with one LID only (local {path.local_lid}, remote {path.remote_lid})"
    if (path.local_gid == NO_GID) != (path.remote_gid == NO_GID):
        return f"with one GID only (local {gid(path.local_gid)}, remote {gid(path.remote_gid)})"
    return "that is its primary path once more" if path[:4] == primary[:4] else None


F09 = rule(
    "F09",
    "path-not-packet",
    "A REQ names other addresses than its packet has",
    severity="info",
    clause="IBA 12.7 (Primary Local and Remote Port LID, GID)",
    explanation="The primary path of the REQ is from and to other ports than the packet that brought it. Allowed, as a"
    " CM may speak for another port. But where addresses are translated, tunnelled or cloned, the REQ names ports that"
    " the receiver cannot reach: it refuses the GID (REJ 12), or the data goes astray. Reported once for a pair of"
    " ports.",
    false_positives="Routers, SR-IOV alias GIDs and several ports of one host look like this (possible only). GIDs"
    " with the same interface id, LIDs within 2^7 of each other (LMC), LIDs of a routed path, 0 and permissive LIDs"
    " are not reported.",
    advice="If connections fail: compare the addresses; look for NAT, a tunnel, or a bond that moved.",
)


@F09.on_step("REQ", history=first, when=_notable, needs=("intact",), once="subject")
def path_not_packet(connection: Connection, step: Step, context: Context) -> Verdicts:
    message, path = step.message, path_of(step, "primary")
    found = []
    for side, port, path_gid, path_lid in (
        ("from", message.source, path.local_gid, path.local_lid),
        ("to", message.destination, path.remote_gid, path.remote_lid),
    ):
        if _other_gid(port, path_gid):
            found.append(f"{side} {gid(path_gid)}, its packet {side} {gid(port.gid)}")
        elif path.subnet_local != 0 and _other_lid(port, path_lid):
            found.append(f"{side} LID {path_lid}, its packet {side} LID {port.lid}")
    if found:
        yield Verdict(
            f"The REQ's path goes {listed(found)}.",
            {"source": address(message.source), "destination": address(message.destination)},
            (weakened("meaning"),),
            subject=(message.source, message.destination),
        )


def _other_gid(port: Address, path_gid: bytes | None) -> bool:
    if port.gid is None or path_gid is None or path_gid == NO_GID:
        return False
    return port.gid[8:] != path_gid[8:]


def _other_lid(port: Address, lid: int | None) -> bool:
    if port.lid is None or lid is None or not (0 < lid <= LAST_UNICAST_LID and 0 < port.lid <= LAST_UNICAST_LID):
        return False
    return (port.lid ^ lid) >> MOST_LMC_BITS != 0
