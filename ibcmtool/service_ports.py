"""The upper protocols by their ports in the TCP port space of the RDMA IP CM, so that a name needs no Scapy.

Written by scripts/layouts.py from the protocols in dissectors/private_data: change them there.
"""

from __future__ import annotations

PORTS = {
    987: "Lustre o2iblnd",
    1234: "RTRS",
    3260: "iSER",
    4420: "NVMe/RDMA",
    16385: "RDS",
    18634: "RDS",
    20049: "NFS/RDMA",
}
