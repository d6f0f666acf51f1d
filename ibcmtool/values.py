"""The numbers of a finding, each with what it is: one way to write it, whoever shows it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple


class Duration(NamedTuple):
    """How long."""

    ns: int


class Time(NamedTuple):
    """When, since the epoch."""

    ns: int


class Qpn(NamedTuple):
    """A QP number, 24 bits."""

    number: int


class Psn(NamedTuple):
    """A packet sequence number, 24 bits."""

    number: int


class CommId(NamedTuple):
    """A Communication ID, 32 bits."""

    number: int


class ServiceId(NamedTuple):
    """A service id, 64 bits."""

    number: int


class Tid(NamedTuple):
    """A TransactionID, 64 bits."""

    number: int


class Guid(NamedTuple):
    """A CA or port GUID, 64 bits."""

    number: int


class Gid(NamedTuple):
    """A GID, 16 bytes."""

    octets: bytes


# A plain int is a count, a code or a setting; text is shown as it is; None stands for what is not known.
Value = Duration | Time | Qpn | Psn | CommId | ServiceId | Tid | Guid | Gid | int | str | None
Evidence = Mapping[str, Value | Sequence[Value] | Sequence[Sequence[Value]] | Mapping[str, int]]
