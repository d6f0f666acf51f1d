"""Property: whatever two hosts say, in whatever order, the tracker and the rules take it and stay consistent."""

from __future__ import annotations

from conversation import Conversation, Host, run
from hypothesis import given, settings
from hypothesis import strategies as st

from ibcmtool.connections.tables import ACTIVE_STATES, PASSIVE_STATES
from ibcmtool.packets import CmMessage

KINDS = ("REQ", "MRA", "REJ", "REP", "RTU", "DREQ", "DREP", "SIDR_REQ", "SIDR_REP", "LAP", "APR")

FIELDS = {
    "REQ": {
        "max_cm_retries": st.integers(0, 2),
        "primary_local_ack_timeout": st.integers(0, 31),
        "local_qpn": st.integers(0, 3),
    },
    "MRA": {"message_mraed": st.integers(0, 3), "service_timeout": st.integers(0, 31)},
    "REJ": {"reason": st.sampled_from([0, 4, 8, 10, 28, 30, 65535]), "message_rejected": st.integers(0, 3)},
    "REP": {"local_qpn": st.integers(0, 3), "local_comm_id": st.integers(0, 3)},
    "DREQ": {"remote_qpn": st.integers(0, 3)},
    "SIDR_REP": {"status": st.integers(0, 6)},
}


@st.composite
def messages(draw):
    kind = draw(st.sampled_from(KINDS))
    fields = draw(st.fixed_dictionaries({}, optional=FIELDS.get(kind, {})))
    return (
        draw(st.integers(0, 2)),
        draw(st.sampled_from(["active", "passive"])),
        draw(st.floats(0, 300)),
        kind,
        fields,
        draw(st.sampled_from([None, None, None, 20, 30, 60, 130])),
        draw(st.sampled_from(["say", "say", "again", "copy"])),
    )


@given(st.lists(messages(), max_size=25), st.sampled_from(["relaxed", "strict"]))
@settings(max_examples=300, deadline=None)
def test_any_conversation_is_taken(said, policy):
    a, b = Host("10.0.0.1", first_comm_id=1), Host("10.0.0.2", first_comm_id=1)
    talks = [Conversation(a, b)]
    talks += [talks[0].another(), talks[0].another(b, a)]
    for number, sender, time, kind, fields, cut, how in said:
        talk = talks[number]
        earlier = [m for m in talk.capture if isinstance(m, CmMessage)]
        if how != "say" and earlier:
            getattr(talk, how)(time, earlier[-1])
        else:
            talk._say(sender, time, kind, {**fields, "cut": cut})
        talk.data(time, sender)
    connections, findings = run(talks[0], policy, until=1000)
    steps = [step for connection in connections for step in connection.steps]
    sightings = sum(len(step.sightings) for step in steps)
    assert len(steps) + sightings <= len([m for m in talks[0].capture if isinstance(m, CmMessage)])
    for connection in connections:
        assert connection.active.state in ACTIVE_STATES and connection.passive.state in PASSIVE_STATES
        assert len(connection.history.replace("^", "")) == len(connection.steps)
        for step in connection.steps:
            assert step.retransmission_of is None or step.retransmission_of in connection.steps
    for finding in findings:
        assert finding.connection in {connection.id for connection in connections}
        assert finding.frames and finding.evidence is not None
        assert finding.message.endswith(".") and finding.advice.endswith(".")
