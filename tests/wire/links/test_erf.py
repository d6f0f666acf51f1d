from __future__ import annotations

import struct

from hypothesis import given
from hypothesis import strategies as st
from scapy.layers.l2 import Ether
from wire.links.stack import BEHIND_ETHER_TYPE, BEHIND_NOTHING, Stack, macs, tags

from dissectors import encapsulation
from dissectors.encapsulation import ERFEthernet, ERFExtension
from dissectors.transport import BTH, LRH
from ibcmtool.wire.links.erf import ERF, ETHERNET_TYPES, INFINIBAND_TYPE, record_around

LINK = ERF


@st.composite
def stacks(draw: st.DrawFn) -> Stack:
    record_type = draw(st.sampled_from([INFINIBAND_TYPE, *sorted(ETHERNET_TYPES)]))
    header = encapsulation.ERF(type=record_type)
    for number in draw(st.lists(st.integers(0, (1 << 56) - 1), max_size=2)):
        header = header / ERFExtension(type=17, data=number)
    if record_type == INFINIBAND_TYPE:
        return Stack(header, BEHIND_NOTHING)
    source, destination = draw(macs), draw(macs)
    header, ids = draw(tags(header / ERFEthernet() / Ether(src=source.hex(":"), dst=destination.hex(":"))))
    return Stack(header, BEHIND_ETHER_TYPE, source, destination, ids, (source, destination))


@given(st.integers(0, 1 << 60))
def test_a_record_around_an_infiniband_packet(time: int) -> None:
    packet = bytes(LRH() / BTH())
    data = record_around(time, packet, len(packet))
    record = encapsulation.ERF(data)
    assert bytes(record) == data
    assert (record.type, record.record_length, record.wire_length) == (INFINIBAND_TYPE, len(data), len(packet))
    assert LRH in record
    (stamp,) = struct.unpack_from("<Q", data)
    assert 0 <= time - (stamp * 1_000_000_000 >> 32) <= 1
