"""What is known of the two ends: which messages arrived, and whose state is sure."""

from __future__ import annotations

import pytest
from conversation import Conversation, Host, run

from ibcmtool.connections.knowledge import arrivals, knowledge
from ibcmtool.model import Connection, Role

SIGNS = {"shown": "!", "likely": ".", "open": "?"}


def told(script: str) -> Connection:
    """The connection of a conversation: a message a second, passive ones in brackets, `^` before a repetition."""
    talk, sent = Conversation(), {}
    for second, word in enumerate(script.split()):
        name = word.strip("^()")
        role: Role = "passive" if "(" in word else "active"
        if name == "data":
            talk.data(second, role)
        elif "^" in word:
            talk.again(second, sent[role, name])
        else:
            kind, _, reason = name.partition(":")
            fields = {"reason": int(reason)} if reason else {}
            sent[role, name] = (talk.active if role == "active" else talk.passive)(second, kind, **fields)
    return run(talk).connections[0]


@pytest.mark.parametrize(
    ("script", "arrived", "active", "passive"),
    [
        # Nothing tells that it arrived.
        ("REQ", "?", "known", "likely"),
        ("REQ (REP)", "!?", "likely", "known"),
        ("REQ (REP) RTU", "!!?", "known", "likely"),
        ("REQ (REP) RTU DREQ", "!!??", "known", "likely"),
        # A clean life: who was sent the DREP likely has it, as it does not ask again.
        ("REQ (REP) RTU DREQ (DREP)", "!!!!.", "likely", "known"),
        ("REQ (REP) RTU DREQ (DREP) ^DREQ (^DREP)", "!!!!?!.", "likely", "known"),
        ("REQ (REP) RTU (DREQ) DREP", "!!!!.", "known", "likely"),
        # Both have sent a DREQ: nothing shows that one arrived.
        ("REQ (REP) RTU DREQ (DREQ)", "!!!??", "likely", "known"),
        # Data follow only from the handshake.
        ("REQ (REP) RTU data", "!!?", "known", "likely"),
        ("REQ (REP) RTU (data)", "!!!", "known", "known"),
        ("REQ (REP) data", "!!", "likely", "likely"),
        # Sent again: which one arrived, nobody can tell. A REP that is sent again shows that no RTU came before it.
        ("REQ ^REQ (REP) RTU (data)", "??!!", "known", "known"),
        ("REQ (REP) (^REP) RTU (data)", "!??!", "known", "known"),
        ("REQ (REP) ^REQ (^REP) RTU (data)", "!???!", "known", "known"),
        ("REQ (REP) RTU (^REP) ^RTU (data)", "!!?!!", "known", "known"),
        ("REQ (MRA) ^REQ (^MRA) (REP)", "!.!.?", "likely", "known"),
        # A refusal; it was lost where the REQ comes again.
        ("REQ (REJ:8)", "!.", "likely", "known"),
        ("REQ (REJ:8) ^REQ (^REJ:8)", "!?!.", "likely", "known"),
        ("REQ (REP) REJ:28", "!!.", "known", "likely"),
        # Nothing of the passive end was seen, and the other one gave up.
        ("REQ ^REQ ^REQ REJ:4", "????", "known", "unknown"),
        # What was not captured is shown all the same.
        ("REQ RTU", "!?", "known", "likely"),
        ("RTU", "?", "known", "likely"),
        ("DREQ (DREP)", "!.", "likely", "known"),
        ("SIDR_REQ (SIDR_REP)", "!.", "likely", "known"),
    ],
)
def test_what_the_steps_show(script: str, arrived: str, active: str, passive: str) -> None:
    connection = told(script)
    assert "".join(SIGNS[one] for one in arrivals(connection)) == arrived
    assert (knowledge(connection, "active"), knowledge(connection, "passive")) == (active, passive)


def test_an_answer_that_was_captured_first_shows_its_question() -> None:
    talk = Conversation()
    talk.passive(1.000, "REJ", reason=8)
    talk.active(1.001, "REQ")
    (connection,) = run(talk).connections
    assert arrivals(connection) == ["likely", "shown"]


def test_of_two_reps_with_ids_of_their_own_the_one_that_is_named_arrived() -> None:
    """The passive end has restarted in between."""
    server = Host("10.0.0.2", psn=500)
    talk = Conversation(passive=server)
    req = talk.active(0, "REQ")
    talk.passive(0.01, "REP")
    talk.again(4, req)
    talk.comm_ids["passive"], server.psn = server.next_comm_id(), 0
    talk.passive(4.01, "REP")
    talk.active(4.02, "RTU")
    (connection,) = run(talk).connections
    assert arrivals(connection) == ["shown", "open", "shown", "shown", "open"]


def test_what_time_decides_is_not_known() -> None:
    talk = Conversation()
    talk.repeat(talk.active(0, "REQ"), 6, 15)
    (connection,) = run(talk, until=200).connections
    assert (connection.outcome, connection.active.state) == ("timed_out", "IDLE")
    assert (knowledge(connection, "active"), knowledge(connection, "passive")) == ("likely", "unknown")


def test_an_end_that_has_restarted_is_known_to_hold_nothing() -> None:
    server = Host("10.0.0.2", psn=500)
    talk = Conversation(passive=server)
    talk.establish()
    server.psn = 0
    talk.another(passive=server).establish(60)
    old = run(talk).connections[0]
    assert old.passive.restarted is not None
    assert knowledge(old, "passive") == "known"
