"""The reports that people write, as captures: captures/reports is what `python -m report_captures` makes of these.

Each report is a function that gives the bytes of one file; the stories stand in stale.py, retries.py and hosts.py.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from . import hosts, retries, stale

CAPTURES: dict[str, Callable[[], bytes]] = {
    "01_power_loss.pcap": stale.power_loss,
    "02_retry_loop.pcap": stale.retry_loop,
    "03_mesh_node_reset.pcap": stale.mesh,
    "04_stale_rep.pcap": stale.stale_rep,
    "05_no_dreq.pcapng": stale.no_dreq,
    "06_new_qpn.pcap": stale.new_qpn,
    "07_unanswered_dreqs.pcap": stale.unanswered_dreqs,
    "08_moved_address.pcap": retries.moved_address,
    "09_one_qpn_many_peers.pcap": hosts.one_qpn,
    "10_reused_at_once.pcap": stale.reused_at_once,
    "11_gave_up.pcap": retries.gave_up,
    "12_refusals.pcap": hosts.refusals,
    "13_storm.pcap.gz": retries.storm,
    "14_mra.pcap": retries.mra,
    "15_dying_process.pcap": retries.dying,
    "16_wrong_message_rejected.pcap": retries.wrong_message,
    "17_roce_v1_to_v2.pcap": hosts.version_1,
    "18_in_the_vm.pcap": partial(hosts.virtual_function, "vm"),
    "18_on_the_wire.pcap": partial(hosts.virtual_function, "wire"),
    "19_bad_icrc.pcap": retries.bad_icrc,
}
