"""Records made by hand: small lives of connections, as the tracker and the rules would hand them over."""

from __future__ import annotations

import io
import ipaddress
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from ibcmtool import messages
from ibcmtool.analysis import Analysis, Finding, InputInfo
from ibcmtool.model import Connection, End, Outcome, Step, Timewait
from ibcmtool.packets import Address, CmMessage
from ibcmtool.values import Duration, Psn, Qpn, Time

T0 = 1_770_804_001_000_000_000  # 2026-02-11 10:00:01 UTC
MS = 1_000_000
NVME = 0x0000000001061144
# RDMA IP CM header and SRP_LOGIN_REQ, as ib_srp sent them in captures/linux-rxe/srp_login_rejected.pcap.
SRP_LOGIN_REQ = bytes.fromhex(
    "0040cd560000000000000000000000000a4d00020000000000000000000000000a4d0001000000000000000000068000000020440000000000"
    "000000505400fffeaa0002505400fffeaa0001505400fffeaa00010044"
)
ACTIVE_GUID, PASSIVE_GUID = 0x505400FFFEAA0002, 0x505400FFFEAA0001

CLASSES: dict[str, Any] = {
    "REQ": messages.Req,
    "REP": messages.Rep,
    "RTU": messages.Rtu,
    "DREQ": messages.Dreq,
    "DREP": messages.Drep,
    "MRA": messages.Mra,
    "REJ": messages.Rej,
    "SIDR_REQ": messages.SidrReq,
    "SIDR_REP": messages.SidrRep,
}


def gid(text: str) -> bytes:
    address = ipaddress.ip_address(text)
    return address.packed if address.version == 6 else bytes(10) + b"\xff\xff" + address.packed


def fields(type_: str, **values: Any) -> Any:
    made = dict.fromkeys(CLASSES[type_]._fields, 0)
    for name in made:
        if name.endswith(("private_data", "additional_reject_info", "additional_information")):
            made[name] = b""
        elif name.endswith("gid"):
            made[name] = bytes(16)
    return CLASSES[type_](**(made | values))


class Life:
    """One connection in the making. Times are milliseconds after T0."""

    def __init__(
        self,
        number: int = 1,
        *,
        active: str = "10.77.0.2",
        passive: str = "10.77.0.1",
        names: tuple[str, str] = ("", ""),
        service_id: int = NVME,
        at: float = 0,
        base: int = 0x0798,
    ) -> None:
        self.start = T0 + int(at * MS)
        self.frame = 1
        self.base = base
        self.connection = Connection(
            id=number,
            active=End("active", Address(gid(active)), "IDLE", ACTIVE_GUID, 0x11, 0xA0F70000 + base, names[0]),
            passive=End("passive", Address(gid(passive)), "LISTEN", PASSIVE_GUID, 0x12, 0x35CE0000 + base, names[1]),
            transport="RoCE v2",
            opened=self.start,
        )
        self.connection.service_id = service_id

    def step(
        self,
        ms: float,
        sender: str,
        type_: str,
        states: str = "",
        *,
        frame: int | None = None,
        disposition: str = "accepted",
        again: Step | None = None,
        tid: int = 0x2A0F70798,
        **values: Any,
    ) -> Step:
        conn = self.connection
        self.frame = frame if frame is not None else self.frame
        ends = (conn.active, conn.passive) if sender == "active" else (conn.passive, conn.active)
        made = fields(type_, **(self._usual(type_, ends) | values))
        before = conn.steps[-1] if conn.steps else None
        active_state, passive_state = states.split() if states else (before.active_state, before.passive_state)
        message = CmMessage(
            file=0,
            frame=self.frame,
            time=self.start + int(ms * MS),
            type=type_,
            source=ends[0].address,
            destination=ends[1].address,
            transport="RoCE v2",
            psn=self.frame,
            tid=tid,
            fields=made,
            mad=b"",
            icrc_ok=True,
        )
        step = Step(message, sender, disposition, again, active_state, passive_state)
        conn.steps.append(step)
        conn.active.state, conn.passive.state = active_state, passive_state
        conn.history += ("^" if again else "") + _LETTERS[type_][sender == "passive"]
        if type_ in ("REQ", "SIDR_REQ"):
            conn.request = made
        self.frame += 1
        return step

    def _usual(self, type_: str, ends: tuple[End, End]) -> dict[str, Any]:
        ids = {"local_comm_id": ends[0].comm_id, "remote_comm_id": ends[1].comm_id}
        if type_ == "REQ":
            return {
                "local_comm_id": ends[0].comm_id,
                "service_id": self.connection.service_id,
                "local_ca_guid": ends[0].ca_guid,
                "local_qpn": ends[0].qpn,
                "starting_psn": 0x3A5F12,
                "remote_cm_response_timeout": 20,
                "local_cm_response_timeout": 20,
                "max_cm_retries": 15,
                "primary_local_ack_timeout": 19,
                "path_mtu": 3,
            }
        if type_ == "REP":
            return ids | {
                "local_qpn": ends[0].qpn,
                "starting_psn": 0x00BEEF,
                "target_ack_delay": 15,
                "local_ca_guid": ends[0].ca_guid,
            }
        if type_ == "DREQ":
            return ids | {"remote_qpn": ends[1].qpn}
        return {} if type_.startswith("SIDR") else ids

    def handshake(self, frame: int = 1) -> Life:
        self.step(0, "active", "REQ", "REQ_SENT REQ_RCVD", frame=frame)
        self.step(9.747, "passive", "REP", "REP_RCVD REP_SENT")
        rtu = self.step(31.864, "active", "RTU", "ESTABLISHED ESTABLISHED")
        self.connection.established = rtu.message.time
        self.connection.outcome = "established"
        return self

    def release(self, ms: float) -> Life:
        self.step(ms, "active", "DREQ", "DREQ_SENT DREQ_RCVD")
        drep = self.step(ms + 0.4, "passive", "DREP", "TIMEWAIT TIMEWAIT")
        at = drep.message.time
        self.connection.closed = at
        self.connection.outcome = "closed"
        self.connection.active.timewait = Timewait(at, at + 128 * MS, at + 1024 * MS, at + 8590 * MS, False)
        self.connection.passive.timewait = Timewait(at, at + 128 * MS, at + 2048 * MS, at + 8590 * MS, False)
        return self

    def ended(self, outcome: Outcome, ms: float | None = None) -> Connection:
        self.connection.outcome = outcome
        if ms is not None:
            self.connection.closed = self.start + int(ms * MS)
        return self.connection


_LETTERS = {
    "REQ": "Qq", "MRA": "Mm", "REJ": "Jj", "REP": "Pp", "RTU": "Uu", "DREQ": "Dd", "DREP": "Ee", "SIDR_REQ": "Ss",
    "SIDR_REP": "Rr",
}  # fmt: skip


def finding(code: str, connection: int | None, frames: tuple[int, ...] = (), **values: Any) -> Finding:
    usual: dict[str, Any] = {
        "name": {"S02": "stale-refused", "T01": "reuse-in-timewait", "H18": "req-exhausted"}.get(code, "some-finding"),
        "severity": "warning",
        "confidence": "certain",
        "policy": "both",
        "related": (),
        "message": f"The sentence of {code}.",
        "advice": f"The advice of {code}.",
        "evidence": {},
        "time": T0,
    }
    return Finding(code, connection=connection, frames=tuple((0, frame) for frame in frames), **(usual | values))


def analysis(*connections: Connection, findings: tuple[Finding, ...] = (), end_ms: float = 0, **info: Any) -> Analysis:
    messages = sum(len(conn.steps) for conn in connections)
    last = max((step.message.time for conn in connections for step in conn.steps), default=T0)
    inputs = [
        InputInfo(
            **(
                {
                    "path": "capture.pcap",
                    "format": "pcap",
                    "link_types": [1],
                    "frames": messages,
                    "cm_messages": messages,
                    "first_time": T0,
                    "last_time": max(last, T0 + int(end_ms * MS)),
                }
                | info
            )
        )
    ]
    return Analysis("relaxed", inputs, list(connections), list(findings))


def clean_close() -> Analysis:
    return analysis(Life(names=("10.77.0.2:41234", "10.77.0.1:4420")).handshake().release(5200).connection)


def stale_s02() -> Analysis:
    """A host crashed and came back with the same QPN: connection 1 is stale, its successor refused."""
    old = Life(1).handshake()
    new = Life(2, at=65_883.186, base=0x1234)
    new.step(0, "active", "REQ", "REQ_SENT REQ_RCVD", frame=7, tid=0x26A49B871)
    refusal = new.step(16.9, "passive", "REJ", "TIMEWAIT IDLE", frame=8, tid=0x26A49B871, reason=10, local_comm_id=0)
    new.connection.reject = refusal
    old.step(65_900.315, "passive", "DREQ", "DREQ_RCVD DREQ_SENT", frame=9, tid=0x2C054CE35)
    drep = old.step(65_943.91, "active", "DREP", "TIMEWAIT TIMEWAIT", frame=10, tid=0x2C054CE35)
    old.connection.closed = drep.message.time
    s02 = finding(
        "S02",
        1,
        (7, 8),
        related=(2,),
        message="The REQ of frame 7 names QPN 0x000011 of 5054:00ff:feaa:0002, which the passive side holds as "
        "connected since frame 1; it was refused with REJ 10 in frame 8, as it must be.",
        advice="The peer rebooted or was reset without a DREQ; the old connection is released now, so let it connect.",
        evidence={"age": Duration(65_883_186_000), "qpn": Qpn(0x11), "refused_at": Time(T0 + 65_900_086_000)},
        time=refusal.message.time,
    )
    x03 = finding("X03", 2, (7,), severity="info", confidence="probable", name="reboot", evidence={"psn": Psn(0)})
    return analysis(old.ended("stale"), new.ended("rejected", 16.9), findings=(s02, x03))


def unanswered_reqs() -> Analysis:
    life = Life()
    first = life.step(0, "active", "REQ", "REQ_SENT REQ_RCVD")
    for at in range(1, 16):
        life.step(6_390 * at, "active", "REQ", again=first, disposition="duplicate")
    conn = life.ended("timed_out", 6_390 * 16)
    h18 = finding(
        "H18",
        1,
        tuple(range(1, 17)),
        message="16 of 16 sends of the REQ went unanswered over 95.9 s.",
        evidence={"sends": 16, "span": Duration(95_850 * MS)},
    )
    return analysis(conn, findings=(h18,))


def timewait_reuse() -> Analysis:
    """The active side reuses its QPN 117 ms after the DREP."""
    first = Life(1).handshake().release(500)
    second = Life(2, at=617.4, base=0x0799).handshake(frame=6).release(500)
    t01 = finding(
        "T01",
        2,
        (5, 6),
        related=(1,),
        severity="error",
        message="QPN 0x000011 comes back 117 ms after its timewait began.",
        evidence={"after": Duration(117 * MS), "minimum": Duration(128 * MS)},
    )
    s05 = finding("S05", 2, (6, 7), related=(1,), severity="info", name="accepted-in-timewait", policy="relaxed")
    return analysis(first.connection, second.connection, findings=(t01, s05))


def srp_rejected() -> Analysis:
    life = Life(service_id=0x00000000010615B3)
    life.step(0, "active", "REQ", "REQ_SENT REQ_RCVD", private_data=SRP_LOGIN_REQ.ljust(92, b"\0"))
    life.connection.reject = life.step(
        5.5,
        "passive",
        "REJ",
        "IDLE IDLE",
        reason=28,
        private_data=bytes.fromhex("c2000000000100060000000000000001").ljust(148, b"\0"),
    )
    return analysis(life.ended("rejected", 5.5))


def no_listener() -> Analysis:
    life = Life(service_id=0x000000000106270F)
    life.step(0, "active", "REQ", "REQ_SENT REQ_RCVD")
    life.connection.reject = life.step(0.3, "passive", "REJ", "IDLE IDLE", reason=8)
    return analysis(life.ended("rejected", 0.3))


def sidr() -> Analysis:
    life = Life(service_id=0x0000000001111C06)
    life.step(
        0, "active", "SIDR_REQ", "SIDR_REQ_SENT SIDR_REQ_RCVD", request_id=0xE248B83C, service_id=0x0000000001111C06
    )
    life.step(1.25, "passive", "SIDR_REP", "IDLE IDLE", request_id=0xE248B83C, qpn=0x1C, q_key=0x1234567)
    life.connection.active.qpn = life.connection.active.comm_id = life.connection.passive.comm_id = None
    life.connection.passive.qpn = 0x1C
    return analysis(life.ended("resolved", 1.25))


def partial() -> Analysis:
    """The capture starts inside: a DREQ and its DREP."""
    life = Life(active="fe80::5054:ff:feaa:2", passive="fe80::5054:ff:feaa:1")
    conn = life.connection
    conn.service_id = conn.active.qpn = conn.active.ca_guid = conn.passive.ca_guid = None
    life.step(0, "unknown", "DREQ", "UNKNOWN UNKNOWN", disposition="unexpected", remote_qpn=0x12)
    life.step(0.2, "unknown", "DREP", "TIMEWAIT TIMEWAIT")
    return analysis(life.ended("partial"))


def crowd(number: int, problems: int = 0) -> Analysis:
    """Many connections between few hosts; the last `problems` of them timed out."""
    connections, findings = [], []
    for at in range(1, number + 1):
        life = Life(at, active=f"10.77.0.{at % 3 + 2}", at=at, base=at)
        life.frame = 5 * at - 4
        if at > number - problems:
            life.step(0, "active", "REQ", "REQ_SENT REQ_RCVD")
            findings.append(finding("H18", at, (5 * at - 4,)))
            connections.append(life.ended("timed_out", 73_700))
        else:
            connections.append(life.handshake(frame=5 * at - 4).release(500).connection)
    return analysis(*connections, findings=tuple(findings))


SCENES: dict[str, Callable[[], Analysis]] = {
    "clean close": clean_close,
    "stale S02": stale_s02,
    "unanswered REQs": unanswered_reqs,
    "timewait reuse": timewait_reuse,
    "SRP reject": srp_rejected,
    "no listener": no_listener,
    "SIDR": sidr,
    "partial": partial,
    "crowd of 20": lambda: crowd(20, 2),
    "crowd of 500": lambda: crowd(500, 60),
    "empty": analysis,
}


@pytest.fixture(params=SCENES)
def scene(request: pytest.FixtureRequest) -> Analysis:
    """Each scene in turn."""
    return SCENES[request.param]()


@pytest.fixture(scope="session")
def records() -> SimpleNamespace:
    """The builders, for tests that need one scene or their own."""
    return SimpleNamespace(
        T0=T0,
        MS=MS,
        Life=Life,
        finding=finding,
        analysis=analysis,
        crowd=crowd,
        gid=gid,
        fields=fields,
        **{name.replace(" ", "_"): made for name, made in SCENES.items()},
    )


class Screen:
    """A console that writes into memory."""

    def __init__(self, width: int | None, *, encoding: str = "utf-8", color: bool = False) -> None:
        self.raw = io.BytesIO()
        self.file = io.TextIOWrapper(self.raw, encoding=encoding, errors="strict", newline="\n")
        self.console = Console(
            file=self.file,
            width=width if width is not None else 10_000,
            force_terminal=width is not None,
            color_system="standard" if color else None,
            legacy_windows=False,
        )

    @property
    def text(self) -> str:
        self.file.flush()
        return self.raw.getvalue().decode(self.file.encoding)

    @property
    def lines(self) -> list[str]:
        return self.text.splitlines()


@pytest.fixture(scope="session")
def screen() -> type[Screen]:
    return Screen
