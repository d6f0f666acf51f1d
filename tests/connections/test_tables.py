"""The state machine: every state x message x direction has a stated result, and the results are the known ones."""

from __future__ import annotations

import itertools

import pytest

from ibcmtool.connections import tables
from ibcmtool.connections.tables import ACTIVE_STATES, JOINT, MESSAGES, PASSIVE_STATES, STATES

# What arrives and what it does, as the Linux CM reacts (blank: ignored). Rows: the receiver's state. Written down
# from the kernel's behaviour, independently of tables.py. TW = TIMEWAIT, = means that the message is
# understood and the state stays.
ACTIVE_REACTIONS = """
                REP        MRA0           REJ    REJ10  DREQ        DREP
REQ_SENT        REP_RCVD   MRA_REQ_RCVD   IDLE   TW     .           .
MRA_REQ_RCVD    REP_RCVD   =              IDLE   TW     .           .
REP_RCVD        .          .              TW     TW     .           .
MRA_REP_SENT    .          .              TW     TW     .           .
ESTABLISHED     .          .              TW     TW     DREQ_RCVD   .
DREQ_SENT       .          .              TW     TW     DREQ_RCVD   TW
DREQ_RCVD       .          .              .      .      =           TW
TIMEWAIT        .          .              .      .      =           =
IDLE            .          .              .      .      =           .
"""
PASSIVE_REACTIONS = """
                RTU          MRA1           REJ    REJ10  DREQ        DREP
REQ_RCVD        .            .              IDLE   TW     .           .
MRA_REQ_SENT    .            .              IDLE   TW     .           .
REP_SENT        ESTABLISHED  MRA_REP_RCVD   IDLE   TW     DREQ_RCVD   .
MRA_REP_RCVD    ESTABLISHED  =              IDLE   TW     DREQ_RCVD   .
ESTABLISHED     =            .              TW     TW     DREQ_RCVD   .
DREQ_SENT       .            .              TW     TW     DREQ_RCVD   TW
DREQ_RCVD       .            .              .      .      =           TW
TIMEWAIT        .            .              .      .      =           =
IDLE            .            .              .      .      =           .
"""
NAMES = {"MRA0": "MRA 0", "MRA1": "MRA 1", "REJ10": "REJ 10"}


def reactions(matrix):
    header, *rows = matrix.strip("\n").splitlines()
    for row in rows:
        state, *cells = row.split()
        for message, cell in zip(header.split(), cells, strict=True):
            after = {".": state, "=": state, "TW": "TIMEWAIT"}.get(cell, cell)
            yield state, NAMES.get(message, message), after, cell != "."


def proved(message, state, after):
    """The receiver of a DREP had sent a DREQ, whatever the capture shows of it."""
    open_states = ("REP_RCVD", "MRA_REP_SENT", "REP_SENT", "MRA_REP_RCVD", "ESTABLISHED")
    return "TIMEWAIT" if message == "DREP" and state in open_states else after


@pytest.mark.parametrize(("state", "message", "after", "reacts"), list(reactions(ACTIVE_REACTIONS)))
def test_what_arrives_at_the_active_side(state, message, after, reacts):
    assert tables.ACTIVE_RECEIVES[message].get(state) == (after if reacts else None)
    sender_state = next(iter(tables.PASSIVE_SENDS[message]))
    active, _, disposition = JOINT[state, sender_state, "passive", message]
    assert active == proved(message, state, after)
    assert disposition == ("accepted" if reacts else "ignored")


@pytest.mark.parametrize(("state", "message", "after", "reacts"), list(reactions(PASSIVE_REACTIONS)))
def test_what_arrives_at_the_passive_side(state, message, after, reacts):
    assert tables.PASSIVE_RECEIVES[message].get(state) == (after if reacts else None)
    sender_state = next(iter(tables.ACTIVE_SENDS[message]))
    _, passive, disposition = JOINT[sender_state, state, "active", message]
    assert passive == proved(message, state, after)
    assert disposition == ("accepted" if reacts else "ignored")


PRODUCT = list(itertools.product(ACTIVE_STATES, PASSIVE_STATES, ("active", "passive"), MESSAGES))


def test_the_full_product_has_a_stated_result():
    """Both ends move by their own tables alone, and a step is unexpected exactly where its sender does not send it."""
    assert len(PRODUCT) == 11 * 12 * 2 * 14
    for active, passive, sender, message in PRODUCT:
        unmoved = active, passive, "unexpected"
        active_after, passive_after, disposition = JOINT.get((active, passive, sender, message), unmoved)
        receiver = "passive" if sender == "active" else "active"
        before = {"active": active, "passive": passive}
        after = {"active": active_after, "passive": passive_after}
        proper = tables.SENDS[sender].get(message, {})
        shown = tables.PROVED[sender].get(message, {})
        effects = tables.RECEIVES[receiver].get(message, {})
        key = (active, passive, sender, message)
        if before[sender] in proper or before[sender] in shown:
            assert after[sender] == {**shown, **proper}[before[sender]], key
            reaction = effects.get(before[receiver], before[receiver])
            assert after[receiver] == proved(message, before[receiver], reaction), key
        else:
            assert after == before, key
        unexpected = before[sender] not in proper
        ignored = before[receiver] not in effects
        assert disposition == ("unexpected" if unexpected else "ignored" if ignored else "accepted"), key
        assert active_after in ACTIVE_STATES and passive_after in PASSIVE_STATES, key


def test_only_known_states_and_messages_stand_in_the_tables():
    for role in ("active", "passive"):
        for table in (tables.SENDS[role], tables.RECEIVES[role], tables.PROVED[role]):
            for message, effects in table.items():
                assert message in MESSAGES
                for before, after in effects.items():
                    assert before in STATES[role] and after in STATES[role], (role, message, before)


def test_what_only_one_side_sends():
    only_active = {"REQ", "MRA 1", "RTU", "SIDR_REQ"}
    only_passive = {"MRA 0", "REP", "SIDR_REP"}
    assert set(tables.ACTIVE_SENDS) == set(MESSAGES) - only_passive
    assert set(tables.PASSIVE_SENDS) == set(MESSAGES) - only_active


def replay(*lines):
    """States after each message of a conversation, from a fresh REQ on."""
    active, passive = "IDLE", "LISTEN"
    for sender, message in lines:
        active, passive, disposition = JOINT[active, passive, sender, message]
        yield active, passive, disposition


def test_a_clean_life():
    conversation = [("active", "REQ"), ("passive", "REP"), ("active", "RTU"), ("active", "DREQ"), ("passive", "DREP")]
    assert list(replay(*conversation)) == [
        ("REQ_SENT", "REQ_RCVD", "accepted"),
        ("REP_RCVD", "REP_SENT", "accepted"),
        ("ESTABLISHED", "ESTABLISHED", "accepted"),
        ("DREQ_SENT", "DREQ_RCVD", "accepted"),
        ("TIMEWAIT", "TIMEWAIT", "accepted"),
    ]


def test_a_repeated_message_takes_back_what_was_assumed():
    conversation = [
        ("active", "REQ"),
        ("passive", "REP"),
        ("active", "REQ"),
        ("passive", "REP"),
        ("active", "RTU"),
        ("passive", "REP"),
    ]
    states = list(replay(*conversation))
    assert states[2] == ("REQ_SENT", "REP_SENT", "ignored")  # the first REP was lost
    assert states[3] == ("REP_RCVD", "REP_SENT", "accepted")
    assert states[5] == ("ESTABLISHED", "REP_SENT", "ignored")  # the RTU was lost


def test_crossing_dreqs():
    start = [("active", "REQ"), ("passive", "REP"), ("active", "RTU")]
    closing = [("active", "DREQ"), ("passive", "DREQ"), ("passive", "DREP"), ("active", "DREP")]
    assert list(replay(*start, *closing))[3:] == [
        ("DREQ_SENT", "DREQ_RCVD", "accepted"),
        ("DREQ_RCVD", "DREQ_SENT", "accepted"),
        ("TIMEWAIT", "TIMEWAIT", "accepted"),
        ("TIMEWAIT", "TIMEWAIT", "accepted"),
    ]


def test_a_stale_rep_refused_and_the_req_repeated():
    conversation = [
        ("active", "REQ"),
        ("passive", "REP"),
        ("active", "REJ 10"),
        ("active", "REQ"),
        ("passive", "REP"),
        ("active", "RTU"),
    ]
    assert [state[:2] for state in replay(*conversation)][2:] == [
        ("REQ_SENT", "TIMEWAIT"),
        ("REQ_SENT", "REQ_RCVD"),
        ("REP_RCVD", "REP_SENT"),
        ("ESTABLISHED", "ESTABLISHED"),
    ]
