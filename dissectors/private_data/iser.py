"""iSER, iSCSI Extensions for RDMA (IBA annex A12): port 3260. A REJ has no format."""

from __future__ import annotations

from ..fields import BytesField, NumberField, check_layout
from .protocol import PrivateData, Protocol, tcp_port

PORT = 3260


class iSER_CM(PrivateData):
    """The iSER CM REQ and REP message header. The bits are set where a feature is missing (REQ) or not used (REP)."""

    name = "iSER"
    fields_desc = [
        NumberField("zbva_not_supported", 1, 1),
        NumberField("send_with_invalidate_not_supported", 0, 1),
        NumberField("reserved_0", 0, 6),
        BytesField("reserved_1", 3),
    ]

    def words(self) -> list[tuple[str, str]]:
        if self.zbva_not_supported is None:
            return []
        return [
            ("zero based virtual addresses", "no" if self.zbva_not_supported else "yes"),
            ("send with invalidate", "no" if self.send_with_invalidate_not_supported else "yes"),
        ]


check_layout(iSER_CM, 4)

PROTOCOLS = (
    Protocol(
        "iSER",
        known_by="port",
        ports=(PORT,),
        over_ip_cm=True,
        recognises=lambda service_id, data: tcp_port(service_id) == PORT,
        layers={"REQ": (iSER_CM,), "REP": (iSER_CM,)},
    ),
)
