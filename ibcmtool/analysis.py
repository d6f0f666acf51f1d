"""The records of an analysis: what was read of each input, and what was found in it.

Flow, one way: source -> Frame -> decode -> CmMessage -> tracker -> Event -> rules -> Finding -> report. Times are
integer nanoseconds since the epoch.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from ibcmtool.model import Confidence, Connection
from ibcmtool.values import Evidence

Severity = Literal["error", "warning", "info"]
Policy = Literal["relaxed", "strict"]
By = Literal["pair", "target", "service"]  # whose totals are given, instead of each connection

LIVE = "live"  # the format of an input that is not a file
SEVERITIES: tuple[Severity, ...] = ("error", "warning", "info")  # worst first


@dataclass(frozen=True, slots=True)
class Finding:
    """One judgement, with the frames and the numbers that it was computed from."""

    code: str
    name: str
    severity: Severity
    confidence: Confidence
    policy: Literal["both", "strict", "relaxed"]  # under which reading of the spec it stands as given
    connection: int | None
    related: tuple[int, ...]
    frames: tuple[tuple[int, int], ...]  # (file, frame number)
    message: str
    advice: str
    evidence: Evidence
    time: int | None = None


@dataclass(slots=True)
class Traffic:
    """What an input holds in which no CM message was found, as far as a second look went."""

    frames: int = 0  # that were looked at
    rdma: int = 0  # packets of RoCE or InfiniBand
    to_qp1: int = 0  # of them
    cut_to_qp1: int = 0  # of these, those that the snap length cut in front of the message
    cut_in_headers: int = 0  # frames that it cut before it can be told what they are
    mpa: int = 0  # beginnings of an iWARP connection, over TCP


@dataclass(slots=True)
class InputInfo:
    """What was read from one input. Counters grow while it is read."""

    path: str
    format: str = ""  # pcap | pcapng | erf, "+gzip", "+zstd", "+xz", "+bzip2" or "+lz4" appended
    link_types: list[int] = field(default_factory=list)
    frames: int = 0
    cm_messages: int = 0
    first_time: int | None = None
    last_time: int | None = None
    end_time: int | None = None  # of its last frame, which need not be the latest
    truncated: bool = False  # the input ends in the middle of a record, or is damaged
    timeless: bool = False  # its frames have no times, or made-up ones
    damage: str = ""  # where and what, one line
    cut_frames: int = 0  # frames shorter than on the wire (snap length)
    cut_messages: int = 0  # CM messages among them whose MAD lost bytes
    dropped: int = 0  # packets that were lost before they could be captured, as their source counted them
    sees_host: bool = False  # it sees every CM message of its host, but for those that it counts as lost
    made_up: bool = False  # its packets were built around bare MADs: PSN, ICRC and headers say nothing
    clock_offset: int = 0  # ns that this input's clock is ahead of the first input's; already taken off all times
    clock_given: bool = False  # that offset was given by hand, not found from packets
    traffic: Traffic | None = None  # where it has no CM message, and could be read once more
    shared_packets: int = 0  # packets seen both here and in an earlier input, from which the offset is found


@dataclass(slots=True)
class Analysis:
    """All that is known of some inputs."""

    policy: Policy
    inputs: list[InputInfo]
    connections: list[Connection]
    findings: list[Finding]  # worst first, then by time


def rank(finding: Finding) -> tuple[int, int, str]:
    """Sort key of findings: worst first, then by time."""
    return SEVERITIES.index(finding.severity), finding.time or 0, finding.code
