"""libfabric's verbs provider with XRC endpoints (version 2 of its format): big endian, any port.

There is no magic and no port of its own, so that a REQ is taken for one only where every field is as libfabric fills
it. Its other endpoints send one byte with the size of the application's data, then these data: nothing to tell by.
"""

from __future__ import annotations

from ..fields import HexField, NumberField, check_layout
from .protocol import PrivateData, Protocol, is_zero, number, tcp_port

VERSION = 2
_SIZE = 17
_HIGHEST_QPN = 0xFFFFFF
_NO_TAG = 0xFFFFFFFF


class LIBFABRIC_XRC(PrivateData):
    """An XRC connection needs one in each direction: the passive side opens the reciprocal one to `port`.

    `target_qpn` is 0 until a target QP exists that can be shared; `connection_tag` is the same in both directions.
    `data_size` counts the bytes of the application that follow.
    """

    name = "libfabric verbs XRC"
    fields_desc = [
        NumberField("version", VERSION, 8),
        NumberField("reciprocal", 0, 8),
        NumberField("port", 0, 16),
        HexField("target_qpn", 0, 32),
        HexField("srqn", 0, 32),
        HexField("connection_tag", 0, 32),
        NumberField("data_size", 0, 8),
    ]

    @classmethod
    def fits(cls, data: bytes) -> bool:
        """What REQ, REP and REJ have in common; a REJ has neither QPN nor SRQ number."""
        return (
            len(data) >= _SIZE
            and data[0] == VERSION
            and data[1] <= 1
            and number(data, 4, 4) <= _HIGHEST_QPN
            and number(data, 8, 4) <= _HIGHEST_QPN
            and is_zero(data[_SIZE + data[16] :])
        )

    def words(self) -> list[tuple[str, str]]:
        told = [] if self.reciprocal is None else [("reciprocal", "yes" if self.reciprocal else "no")]
        return told + self.field_words("connection_tag", "srqn", *(["target_qpn"] if self.target_qpn else []))


check_layout(LIBFABRIC_XRC, _SIZE)


def _recognises(service_id: int, data: bytes) -> bool:
    return (
        tcp_port(service_id) is not None
        and LIBFABRIC_XRC.fits(data)
        and not is_zero(data[2:4])
        and not is_zero(data[8:12])
        and number(data, 12, 4) not in (0, _NO_TAG)
        and _SIZE + data[16] <= len(data)
    )


_LAYERS = (LIBFABRIC_XRC,)

PROTOCOLS = (
    Protocol(
        "libfabric verbs XRC",
        known_by="form",
        over_ip_cm=True,
        recognises=_recognises,
        layers={"REQ": _LAYERS, "REP": _LAYERS, "REJ": _LAYERS},
    ),
)
