"""What the settings in a message call for: found out once, as a host sends the same ones again and again.

Most bits of a message are settings: timeouts, depths, codes, options, reserved bits, the P_Key and the source QP of its
packet. Other values belong to one connection, one pair of ports or one consumer. A rule whose test (`settings`,
catalogue.rule) looks at settings alone is asked only at messages whose settings it has found worth a look.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from dissectors.slots import Slot
from ibcmtool.model import CmMessage
from ibcmtool.wire.readers import layer_size, layout

if TYPE_CHECKING:
    from ibcmtool.rules.catalogue import Placed

MOST_SETTINGS = 1024  # remembered of each kind of message
# Values that belong to one connection, pair of ports or consumer; no test of settings reads them.
NO_SETTINGS = frozenset(
    {
        *("tid", "local_comm_id", "remote_comm_id", "request_id", "local_ca_guid", "local_q_key", "q_key", "local_qpn"),
        *("remote_qpn", "qpn", "local_eecn", "remote_eecn", "starting_psn", "primary_local_lid", "primary_remote_lid"),
        *("primary_local_gid", "primary_remote_gid", "primary_flow_label"),
        *("additional_reject_info", "additional_info", "private_data"),
    }
)
_SETTINGS_IN_FRONT = ("partition_key", "source_qp")
_FRONT_SIZE = layer_size("BTH") + layer_size("DETH")
_FRONT = slice(-_FRONT_SIZE, None)  # of the bytes that end where the MAD begins
_number = int.from_bytes


class Settings:
    """The rules that test the settings of a kind of message, and what they have answered."""

    def __init__(self, kind: str, rules: tuple[Placed, ...]) -> None:
        self._rules = rules
        self._size, self._mask = mask(kind)
        self._part = slice(self._size)  # of a MAD
        # By settings: the rules that want to see a message with them. One without headers has none in front.
        self._known: dict[int, tuple[Placed, ...]] = {}
        self._known_bare: dict[int, tuple[Placed, ...]] = {}

    def call_for(self, message: CmMessage) -> tuple[Placed, ...]:
        """The rules that may have something to say of a message with such settings."""
        headers, mad = message.headers, message.mad
        if len(mad) < self._size:
            return self._ask(message)
        known = self._known if headers else self._known_bare
        settings = _number(headers[_FRONT] + mad[self._part]) & self._mask
        answer = known.get(settings)
        if answer is None:
            if len(known) >= MOST_SETTINGS:
                known.clear()
            answer = known[settings] = self._ask(message)
        return answer

    def _ask(self, message: CmMessage) -> tuple[Placed, ...]:
        return tuple(
            (place, rule) for place, rule in self._rules if rule.settings is not None and rule.settings(message)
        )


def mask(kind: str) -> tuple[int, int]:
    """How many bytes of such a MAD hold settings, and a mask of these in the transport headers and those bytes."""
    parts = layout("MAD"), behind(layout(f"CM_{kind}"), "MAD")
    size, bits = mask_of([slot for part in parts for slot in part if slot.name not in NO_SETTINGS])
    front = layout("BTH"), behind(layout("DETH"), "BTH")
    front_size, front_bits = mask_of([slot for part in front for slot in part if slot.name in _SETTINGS_IN_FRONT])
    return size, front_bits << (_FRONT_SIZE - front_size + size) * 8 | bits


def behind(slots: Iterable[Slot], layer: str) -> list[Slot]:
    """The fields of a layer that stands behind another one, counted from where that begins."""
    return [slot._replace(bit_offset=slot.bit_offset + layer_size(layer) * 8) for slot in slots]


def mask_of(slots: Sequence[Slot]) -> tuple[int, int]:
    """How many bytes these fields are in, from the first byte of all on, and a mask of their bits in them."""
    size = (max(slot.bit_offset + slot.width for slot in slots) + 7) // 8
    return size, sum(((1 << slot.width) - 1) << (size * 8 - slot.bit_offset - slot.width) for slot in slots)
