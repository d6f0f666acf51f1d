"""A second look at a capture in which no CM message was found: what is there instead."""

from __future__ import annotations

import struct
from itertools import islice
from pathlib import Path
from typing import Final

from dissectors.recognition import GSI_QPN
from ibcmtool.analysis import Traffic
from ibcmtool.packets import Frame
from ibcmtool.sources.errors import SourceError
from ibcmtool.sources.files import open_capture
from ibcmtool.sources.files.scan import QPN, QPN_MASK, ScanRequest, qpn_word
from ibcmtool.wire.links import LINK_TYPES
from ibcmtool.wire.network import IPV4, IPV6, IPV6_SIZE, behind_extensions
from ibcmtool.wire.readers import layer_size
from ibcmtool.wire.tunnels import layers

MOST_FRAMES = 500_000  # some seconds
TCP: Final = 6
MPA_KEYS: Final = (b"MPA ID Req Frame", b"MPA ID Rep Frame")  # RFC 5044, 7.1: how each iWARP connection begins
_MAD_ENDS: Final = layer_size("BTH") + layer_size("DETH") + layer_size("MAD")  # its header; from the BTH on


def survey(path: str) -> Traffic | None:
    """What the first frames of a capture file are; None where it cannot be read twice."""
    if not Path(path).is_file():
        return None
    traffic = Traffic()
    try:
        with open_capture(path, 0) as capture:
            for frame in islice(capture.scan(ScanRequest(everything=True)), MOST_FRAMES):
                traffic.frames += 1
                try:
                    _count(traffic, frame)
                except (IndexError, struct.error):
                    traffic.cut_in_headers += frame.wire_length > len(frame.data)
    except SourceError:
        return None
    return traffic


def _count(traffic: Traffic, frame: Frame) -> None:
    data, link = frame.data, LINK_TYPES[frame.link_type]
    found = link.find(data)
    if found is None:
        traffic.mpa += _tcp_payload(frame).startswith(MPA_KEYS)
        return
    traffic.rdma += 1
    bth = found[2]
    if qpn_word(data, bth + QPN)[0] & QPN_MASK == GSI_QPN:
        traffic.to_qp1 += 1
        traffic.cut_to_qp1 += len(data) < min(bth + _MAD_ENDS, frame.wire_length)


def _tcp_payload(frame: Frame) -> bytes:
    """What a TCP segment carries; nothing where the frame holds none."""
    data, carried = frame.data, LINK_TYPES[frame.link_type].carried(frame.data)
    kind, at, _, _ = (0, 0, 0, 0) if carried is None else layers(data, carried[1], carried[0])[-1]
    if kind == IPV4 and data[at + 9] == TCP:
        at += (data[at] & 15) * 4
    elif kind == IPV6:
        behind = behind_extensions(data, at + IPV6_SIZE, data[at + 6])
        if behind is None or behind[0] != TCP:
            return b""
        at = behind[1]
    else:
        return b""
    return data[at + (data[at + 12] >> 4) * 4 :]
