"""The numbers by which a CM MAD is recognised (IBA vol. 1, 12.6, 13.4). Plain Python, no Scapy."""

from __future__ import annotations

from typing import Final

GSI_QPN: Final = 1  # QP1, the general services interface: where CM MADs go to and come from
GSI_Q_KEY: Final = 0x80010000
NEXT_HEADER_BTH: Final = 0x1B
UD_SEND_ONLY: Final = 0x64
UD_SEND_ONLY_IMMEDIATE: Final = 0x65
MAD_SIZE: Final = 256
CM_CLASS: Final = 0x07
CM_CLASS_VERSION: Final = 2
CM_ATTRIBUTES: Final[dict[int, str]] = {
    0x0001: "ClassPortInfo",
    0x0010: "REQ",
    0x0011: "MRA",
    0x0012: "REJ",
    0x0013: "REP",
    0x0014: "RTU",
    0x0015: "DREQ",
    0x0016: "DREP",
    0x0017: "SIDR_REQ",
    0x0018: "SIDR_REP",
    0x0019: "LAP",
    0x001A: "APR",
    0x001B: "SAP",
    0x001C: "SPR",
}
