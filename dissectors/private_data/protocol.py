"""What an upper protocol's file says of its private data."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

from scapy.fields import StrField
from scapy.packet import Packet

from ..fields import WireLayer
from ..text import bytes_words

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_IP_CM_TCP = 0x0000000001060000
_ACRONYMS = frozenset(("io", "mtu", "nid", "qpn", "srqn", "ud"))


class _DataField(StrField):
    def i2repr(self, pkt: Packet | None, x: bytes) -> str:
        return bytes_words(x)


class ConsumerData(Packet):
    """Private data behind the last layer that is known: of a protocol that is not, or the unused end of the area."""

    name = "consumer data"
    fields_desc = [_DataField("data", b"")]


class PrivateData(WireLayer):
    """Base of the private data layers."""

    @classmethod
    def fits(cls, data: bytes) -> bool:
        """Whether the bytes can be this layer. CM messages have no length for private data: unused bytes are zero."""
        return bool(data)

    def words(self) -> list[tuple[str, str]]:
        """The telling fields as (name, value), the most telling one first; fields that were cut off are left out."""
        return []

    def field_words(self, *names: str) -> list[tuple[str, str]]:
        """The named fields as show() writes them, with spaces for the underscores; without those that were cut off."""
        return [(_label(name), self.repr_of(name)) for name in names if getattr(self, name) is not None]

    def repr_of(self, name: str) -> str:
        field, value = self.getfield_and_val(name)
        return str(field.i2repr(self, value))

    def default_payload_class(self, payload: bytes) -> type[Packet]:
        return ConsumerData


def _label(name: str) -> str:
    return " ".join(part.upper() if part in _ACRONYMS else part for part in name.split("_"))


KnownBy = Literal["service id", "port", "form", "loose form", "class"]
KNOWN_BY: tuple[KnownBy, ...] = get_args(KnownBy)  # the surest first: so protocols are asked


@dataclass(frozen=True)
class Protocol:
    """An upper protocol that sends private data with its REQ, REP or REJ."""

    name: str
    known_by: KnownBy  # a service id of its own; a well-known port, or a magic elsewhere; what only its form tells
    over_ip_cm: bool  # its REQ begins with the RDMA IP CM header (if one is there: AF_IB addresses have none)
    recognises: Callable[[int, bytes], bool]  # by the REQ's service id and private data after the RDMA IP CM header
    layers: Mapping[str, tuple[type[PrivateData], ...]]  # by message type (REQ, REP, REJ): the first that fits
    ports: tuple[int, ...] = ()  # well-known ones, in the TCP port space of the RDMA IP CM

    @property
    def short_name(self) -> str:
        """The first word of the name: "NVMe" of NVMe/RDMA, "Lustre" of Lustre o2iblnd."""
        return re.split("[ /]", self.name)[0]


def tcp_port(service_id: int) -> int | None:
    """Port of an RDMA IP CM service id in the TCP port space, else None."""
    return service_id & 0xFFFF if service_id & ~0xFFFF == _IP_CM_TCP else None


def number(data: bytes, offset: int, size: int) -> int:
    """Big endian number of `size` bytes; bytes beyond the end count as zero."""
    return int.from_bytes(data[offset : offset + size].ljust(size, b"\0"), "big")


def is_zero(data: bytes) -> bool:
    """Whether all bytes are zero."""
    return not any(data)
