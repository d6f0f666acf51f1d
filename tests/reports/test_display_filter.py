"""The Wireshark filters: Wireshark itself must agree."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest

from ibcmtool.reports.display_filter import DisplayFilters

PREFIX = "infiniband.mad.mgmtclass == 0x07 && "


def test_all_transaction_ids_of_the_connection(records: SimpleNamespace) -> None:
    old, new = records.stale_S02().connections
    filters = DisplayFilters([old, new])
    assert filters.of(old) == PREFIX + (
        "(infiniband.mad.transactionid == 0x00000002a0f70798 || infiniband.mad.transactionid == 0x00000002c054ce35)"
    )
    assert filters.of(new) == PREFIX + "infiniband.mad.transactionid == 0x000000026a49b871"


def test_a_shared_transaction_id_is_narrowed_by_frame_numbers(records: SimpleNamespace) -> None:
    first, second = records.timewait_reuse().connections
    assert DisplayFilters([first, second]).of(second) == PREFIX + (
        "infiniband.mad.transactionid == 0x00000002a0f70798 && (frame.number == 6 || frame.number == 7 || "
        "frame.number == 8 || frame.number == 9 || frame.number == 10)"
    )
    assert "frame.number" not in DisplayFilters().of(second)


def test_nothing_to_show(records: SimpleNamespace) -> None:
    assert DisplayFilters().of(records.Life().connection) == ""


@pytest.mark.skipif(shutil.which("tshark") is None, reason="needs tshark")
@pytest.mark.parametrize(
    "name", ["nvme_host_crash_stale", "stale_req_dup_dreq_edge", "udaddy_sidr", "mra_rej_rep_retransmit", "rtu_lost"]
)
def test_tshark_shows_exactly_these_frames(captures: Path, name: str) -> None:
    from ibcmtool.engine.files import analyze

    path = str(captures / f"{name}.pcap")
    analysis = analyze([path])
    filters = DisplayFilters(analysis.connections)
    assert analysis.connections
    for conn in analysis.connections:
        command = ["tshark", "-r", path, "-Y", filters.of(conn), "-T", "fields", "-e", "frame.number"]
        shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
        assert [int(number) for number in shown] == [step.message.frame for step in conn.steps]
