"""The numbers of a finding, each with what it is: one way to write it, whoever shows it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, TypeVar


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


class InputNumber(NamedTuple):
    """One of the inputs."""

    file: int  # from 0


class FrameNumber(NamedTuple):
    """A frame of an input."""

    file: int  # from 0
    frame: int  # from 1


# A plain int is a count, a code or a setting; text is shown as it is; None stands for what is not known.
Value = (
    Duration | Time | Qpn | Psn | CommId | ServiceId | Tid | Guid | Gid | InputNumber | FrameNumber | int | str | None
)
# A mapping has counts by name, or the values of a field before and after.
Evidence = Mapping[
    str, Value | Sequence[Value] | Sequence[Sequence[Value]] | Mapping[str, int] | Mapping[str, Sequence[int | str]]
]

V = TypeVar("V")


def known(kind: Callable[[int], V], number: int | None) -> V | None:
    """A number of this kind; None where the capture cut it off."""
    return None if number is None else kind(number)
