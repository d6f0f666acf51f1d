"""Whatever two CMs (or broken captures of them) say, the judges neither raise nor contradict the record's promises."""

from __future__ import annotations

from conversation import Conversation, Host, run
from hypothesis import given, settings
from hypothesis import strategies as st

from dissectors.cm import CM_LAYERS
from ibcmtool.analysis import SEVERITIES
from ibcmtool.rules import CATALOGUE

KINDS = [kind for kind in CM_LAYERS if kind not in ("SAP", "SPR")]
# Few values, so that ids, QPNs and reasons meet again.
FIELDS = {
    "local_comm_id": [0, 1, 2],
    "remote_comm_id": [0, 1, 2],
    "local_qpn": [0, 0x11, 0x12],
    "remote_qpn": [0, 0x11, 0x12],
    "local_ca_guid": [0, 7],
    "max_cm_retries": [0, 1, 15],
    "primary_local_ack_timeout": [0, 19, 31],
    "remote_cm_response_timeout": [0, 20, 31],
    "message_mraed": [0, 1, 2, 3],
    "service_timeout": [0, 20],
    "message_rejected": [0, 1, 2, 3],
    "reject_info_length": [0, 8, 127],
    "reason": [0, 4, 8, 10, 12, 28, 0xFFFF],
    "status": [0, 1],
    "transport_service_type": [0, 3],
    "extended_transport_type": [0, 1],
}


@st.composite
def remarks(draw: st.DrawFn) -> tuple[str, str, float, dict[str, int]]:
    kind = draw(st.sampled_from(KINDS))
    known = {slot.name for slot in CM_LAYERS[kind].fields_desc}
    given = {
        name: draw(st.sampled_from(values))
        for name, values in FIELDS.items()
        if name in known and draw(st.integers(0, 3)) == 0
    }
    if draw(st.integers(0, 9)) == 0:
        given["cut"] = draw(st.integers(24, 255))
    return (
        draw(st.sampled_from(["active", "passive"])),
        kind,
        draw(st.sampled_from([0.0, 0.0001, 1.0, 6.0, 400.0])),
        given,
    )


@settings(max_examples=150, deadline=None)
@given(
    said=st.lists(st.tuples(remarks(), st.sampled_from(["once", "again", "copy", "data"])), max_size=25),
    native=st.booleans(),
)
def test_every_conversation_gets_a_verdict(
    said: list[tuple[tuple[str, str, float, dict[str, int]], str]], native: bool
) -> None:
    hosts = (Host("10.0.0.1", lid=1), Host("10.0.0.2", lid=2)) if native else (Host("10.0.0.1"), Host("10.0.0.2"))
    talk = Conversation(*hosts)
    now = 0.0
    for (sender, kind, pause, fields), how in said:
        now += pause
        message = getattr(talk, sender)(now, kind, **fields)
        if how == "again":
            talk.again(now + 1, message)
        elif how == "copy":
            talk.copy(now + 0.0001, message, file=1)
        elif how == "data":
            talk.data(now, "active")
    result = run(talk, until=now + 100)
    numbers = {connection.id for connection in result.connections}
    frames = {(item.file, item.frame) for item in talk.capture}
    for finding in result.findings:
        assert finding.code in CATALOGUE
        assert finding.severity in SEVERITIES
        assert finding.message.strip() and finding.message.endswith(".")
        assert finding.connection in numbers
        assert set(finding.related) <= numbers
        assert set(finding.frames) <= frames
        assert finding.evidence
