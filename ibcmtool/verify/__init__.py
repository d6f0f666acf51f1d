"""Our decode of a capture against Wireshark's: the proof of the layers.

Every CM frame is dissected twice, by the Scapy layers of `dissectors` and by tshark (through pyshark), and compared
field by field; the fields of the CM message itself are compared in both our decodes, the layers and the bulk reader.
Faults of Wireshark that are known (faults.py) are counted apart.
"""

from __future__ import annotations

from ibcmtool.verify.comparison import Comparison, Difference, verify
from ibcmtool.verify.tshark import TsharkError

__all__ = ["Comparison", "Difference", "TsharkError", "verify"]
