"""docs/private-data.md against the registry and its tables."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from dissectors.private_data import PROTOCOLS, iser, lustre, nfs, nvme, rds, rtrs, srp

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "private-data.md").read_text(encoding="utf-8")
ROWS = {row[0]: row[1:] for row in re.findall(r"^\|" + r" (.+?) \|" * 6 + "$", PAGE, re.MULTILINE)}


def test_every_protocol_has_a_row():
    assert ROWS.keys() - {"protocol", "---"} == {protocol.name for protocol in PROTOCOLS[:-1]}


@pytest.mark.parametrize("protocol", PROTOCOLS[:-1], ids=lambda protocol: protocol.name)
def test_messages_without_a_form_have_a_dash(protocol):
    shown = dict(zip(("REQ", "REP", "REJ"), ROWS[protocol.name][2:], strict=True))
    assert {message for message, text in shown.items() if text != "-"} == protocol.layers.keys()


@pytest.mark.parametrize(
    ("name", "numbers"),
    [
        ("NVMe/RDMA", [nvme.PORT]),
        ("iSER", [iser.PORT]),
        ("NFS/RDMA", [nfs.PORT, f"0x{nfs.MAGIC:08x}"]),
        ("Lustre o2iblnd", [lustre.PORT, f"0x{lustre.MAGIC:08x}"]),
        ("RDS", [rds.PORT_IPV4, rds.PORT_IPV6]),
        ("RTRS", [rtrs.PORT, f"0x{rtrs.MAGIC:04x}"]),
    ],
)
def test_ports_and_magics(name, numbers):
    for number in numbers:
        assert re.search(rf"\b{number}\b", ROWS[name][0])


@pytest.mark.parametrize(
    ("title", "reasons", "width"),
    [("NVMe/RDMA", nvme.STATUS, 0), ("SRP", srp.REASONS, 8), ("Lustre o2iblnd", lustre.REASONS, 0)],
)
def test_reasons(title, reasons, width):
    table = PAGE.split(f"**{title}**\n\n")[1].split("\n\n")[0]
    rows = [tuple(row.strip("| ").split(" | ")) for row in table.splitlines()[2:]]
    assert rows == [(f"0x{code:0{width}x}" if width else str(code), text) for code, text in reasons.items()]
