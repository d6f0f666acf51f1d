"""The numbers by which a CM MAD is recognised (IBA vol. 1, 12.6, 13.4). Plain Python, no Scapy."""

from __future__ import annotations

GSI_QPN = 1  # QP1, the general services interface: where CM MADs go to and come from
GSI_Q_KEY = 0x80010000
NEXT_HEADER_BTH = 0x1B
UD_SEND_ONLY = 0x64
UD_SEND_ONLY_IMMEDIATE = 0x65
MAD_SIZE = 256
CM_CLASS = 0x07
CM_CLASS_VERSION = 2
CM_ATTRIBUTES: dict[int, str] = {
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
