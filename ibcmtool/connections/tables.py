"""The CM state machine as an observer on the wire sees it, as data.

Sources: IBA volume 1, 12.9.7.1 (active) and 12.9.7.2 (passive), 12.9.8.3.1 (stale connections), and the behaviour of
Linux ib_cm, whose state names are used.

Two facts shape these tables. Whoever sends a message proves the state it is in; whoever it was sent to may never
have received it. So there are two tables per role:

* SENDS: a message from this end, by the state that it was thought to be in -> the state it has now proved. A send
  corrects an assumption: a REQ repeated after a REP was seen tells that the REP did not arrive, so REP_RCVD goes back
  to REQ_SENT. A missing key is a message that this state does not send: the step is `unexpected`. An entry in PROVED
  is unexpected as well, but tells the state all the same (what led there is missing from the capture).
* RECEIVES: what the message does on arrival, should it arrive. A missing key is a message that the state ignores.

JOINT is made from them at import: (active state, passive state, sender, message) -> both states and a disposition.

Looser than the specification on purpose: a DREQ from REP_SENT (data may have established the passive side, IBA
12.9.7.2 COMM_EST, without an RTU seen), a DREP from any state after the end (Linux answers an unknown DREQ
statelessly), a REQ after a REJ (the REJ may be lost, and Linux takes the repeated REQ as a new one).

Messages carry what their effect depends on: "MRA 0", "MRA 1", "MRA 2" by the message they acknowledge, "REJ 10" is a
REJ with reason stale connection, "REJ" any other. UNKNOWN is the state of an end whose beginning was not captured.
"""

from __future__ import annotations

from typing import Final, Literal

from ibcmtool.model import Role, State

Effects = dict[str, dict[State, State]]

HANDSHAKE_MESSAGES: Final = ("REQ", "MRA 0", "MRA 1", "REJ", "REJ 10", "REP", "RTU")
OTHER_MESSAGES: Final = ("DREQ", "DREP", "LAP", "APR", "MRA 2", "SIDR_REQ", "SIDR_REP")
MESSAGES: Final = HANDSHAKE_MESSAGES + OTHER_MESSAGES

ACTIVE_STATES: Final[tuple[State, ...]] = (
    "UNKNOWN",
    "IDLE",
    "REQ_SENT",
    "MRA_REQ_RCVD",
    "REP_RCVD",
    "MRA_REP_SENT",
    "ESTABLISHED",
    "DREQ_SENT",
    "DREQ_RCVD",
    "TIMEWAIT",
    "SIDR_REQ_SENT",
)
PASSIVE_STATES: Final[tuple[State, ...]] = (
    "UNKNOWN",
    "IDLE",
    "LISTEN",
    "REQ_RCVD",
    "MRA_REQ_SENT",
    "REP_SENT",
    "MRA_REP_RCVD",
    "ESTABLISHED",
    "DREQ_SENT",
    "DREQ_RCVD",
    "TIMEWAIT",
    "SIDR_REQ_RCVD",
)

# Closing is the same for both roles.
_CLOSING_SENDS: Final[Effects] = {
    "DREQ": {
        "ESTABLISHED": "DREQ_SENT",
        "DREQ_SENT": "DREQ_SENT",
        "DREQ_RCVD": "DREQ_SENT",  # crossing: the peer's DREQ had not arrived yet
        "TIMEWAIT": "DREQ_SENT",  # the DREP seen before did not arrive
        "IDLE": "DREQ_SENT",  # nor was it in timewait, then
        "UNKNOWN": "DREQ_SENT",
    },
    "DREP": {
        "DREQ_RCVD": "TIMEWAIT",
        "DREQ_SENT": "TIMEWAIT",
        "TIMEWAIT": "TIMEWAIT",
        "IDLE": "IDLE",  # stateless
        "UNKNOWN": "TIMEWAIT",
    },
    "LAP": {"ESTABLISHED": "ESTABLISHED", "UNKNOWN": "ESTABLISHED"},
    "APR": {"ESTABLISHED": "ESTABLISHED", "UNKNOWN": "ESTABLISHED"},
    "MRA 2": {"ESTABLISHED": "ESTABLISHED", "UNKNOWN": "ESTABLISHED"},
}
_CLOSING_RECEIVES: Final[Effects] = {
    "DREQ": {
        "ESTABLISHED": "DREQ_RCVD",
        "DREQ_SENT": "DREQ_RCVD",
        "DREQ_RCVD": "DREQ_RCVD",
        "TIMEWAIT": "TIMEWAIT",  # answered once more
        "IDLE": "IDLE",  # answered statelessly
        "UNKNOWN": "DREQ_RCVD",
    },
    "DREP": {
        "DREQ_SENT": "TIMEWAIT",
        "DREQ_RCVD": "TIMEWAIT",
        "TIMEWAIT": "TIMEWAIT",  # the second one of crossing DREQs; it changes nothing
        "UNKNOWN": "TIMEWAIT",
    },
    "LAP": {"ESTABLISHED": "ESTABLISHED", "UNKNOWN": "ESTABLISHED"},
    "APR": {"ESTABLISHED": "ESTABLISHED", "UNKNOWN": "ESTABLISHED"},
    "MRA 2": {"ESTABLISHED": "ESTABLISHED", "UNKNOWN": "ESTABLISHED"},
}

ACTIVE_SENDS: Final[Effects] = {
    "REQ": {
        "IDLE": "REQ_SENT",
        "REQ_SENT": "REQ_SENT",
        "MRA_REQ_RCVD": "MRA_REQ_RCVD",
        "REP_RCVD": "REQ_SENT",
        "TIMEWAIT": "REQ_SENT",  # a REJ 10 seen before did not arrive
        "UNKNOWN": "REQ_SENT",
    },
    "MRA 1": {"REP_RCVD": "MRA_REP_SENT", "MRA_REP_SENT": "MRA_REP_SENT", "UNKNOWN": "MRA_REP_SENT"},
    "RTU": {
        "REP_RCVD": "ESTABLISHED",
        "MRA_REP_SENT": "ESTABLISHED",
        "ESTABLISHED": "ESTABLISHED",
        "UNKNOWN": "ESTABLISHED",
    },
    "REJ": {
        "REQ_SENT": "IDLE",
        "MRA_REQ_RCVD": "IDLE",
        "REP_RCVD": "IDLE",
        "MRA_REP_SENT": "IDLE",
        "IDLE": "IDLE",
        "UNKNOWN": "IDLE",
    },
    # Refusing a stale REP leaves the attempt itself alive in Linux: its REQ is sent again.
    "REJ 10": {
        "REQ_SENT": "REQ_SENT",
        "MRA_REQ_RCVD": "MRA_REQ_RCVD",
        "REP_RCVD": "REQ_SENT",
        "MRA_REP_SENT": "REQ_SENT",
        "IDLE": "IDLE",
        "UNKNOWN": "IDLE",
    },
    "SIDR_REQ": {"IDLE": "SIDR_REQ_SENT", "SIDR_REQ_SENT": "SIDR_REQ_SENT"},
    **_CLOSING_SENDS,
    "DREQ": {**_CLOSING_SENDS["DREQ"], "REP_RCVD": "DREQ_SENT", "MRA_REP_SENT": "DREQ_SENT"},
}
ACTIVE_RECEIVES: Final[Effects] = {
    "REP": {"REQ_SENT": "REP_RCVD", "MRA_REQ_RCVD": "REP_RCVD", "UNKNOWN": "REP_RCVD"},
    "MRA 0": {"REQ_SENT": "MRA_REQ_RCVD", "MRA_REQ_RCVD": "MRA_REQ_RCVD", "UNKNOWN": "MRA_REQ_RCVD"},
    "REJ": {
        "REQ_SENT": "IDLE",
        "MRA_REQ_RCVD": "IDLE",
        "REP_RCVD": "TIMEWAIT",
        "MRA_REP_SENT": "TIMEWAIT",
        "ESTABLISHED": "TIMEWAIT",
        "DREQ_SENT": "TIMEWAIT",
        "UNKNOWN": "IDLE",
    },
    "REJ 10": {
        "REQ_SENT": "TIMEWAIT",
        "MRA_REQ_RCVD": "TIMEWAIT",
        "REP_RCVD": "TIMEWAIT",
        "MRA_REP_SENT": "TIMEWAIT",
        "ESTABLISHED": "TIMEWAIT",
        "DREQ_SENT": "TIMEWAIT",
        "UNKNOWN": "TIMEWAIT",
    },
    "SIDR_REP": {"SIDR_REQ_SENT": "IDLE", "UNKNOWN": "IDLE"},
    **_CLOSING_RECEIVES,
}

PASSIVE_SENDS: Final[Effects] = {
    "MRA 0": {"REQ_RCVD": "MRA_REQ_SENT", "MRA_REQ_SENT": "MRA_REQ_SENT", "UNKNOWN": "MRA_REQ_SENT"},
    "REP": {
        "REQ_RCVD": "REP_SENT",
        "MRA_REQ_SENT": "REP_SENT",
        "REP_SENT": "REP_SENT",
        "MRA_REP_RCVD": "MRA_REP_RCVD",
        "ESTABLISHED": "REP_SENT",  # the RTU seen before did not arrive
        "DREQ_RCVD": "DREQ_RCVD",  # sent before the peer's RTU and DREQ arrived
        "UNKNOWN": "REP_SENT",
    },
    "REJ": {
        "LISTEN": "LISTEN",
        "REQ_RCVD": "IDLE",
        "MRA_REQ_SENT": "IDLE",
        "REP_SENT": "TIMEWAIT",
        "MRA_REP_RCVD": "TIMEWAIT",
        "IDLE": "IDLE",
        "UNKNOWN": "IDLE",
    },
    "REJ 10": {
        "LISTEN": "LISTEN",
        "REQ_RCVD": "IDLE",
        "MRA_REQ_SENT": "IDLE",
        "REP_SENT": "TIMEWAIT",
        "MRA_REP_RCVD": "TIMEWAIT",
        "IDLE": "IDLE",
        "UNKNOWN": "IDLE",
    },
    "SIDR_REP": {"SIDR_REQ_RCVD": "IDLE", "IDLE": "IDLE", "UNKNOWN": "IDLE"},
    **_CLOSING_SENDS,
    "DREQ": {**_CLOSING_SENDS["DREQ"], "REP_SENT": "DREQ_SENT", "MRA_REP_RCVD": "DREQ_SENT"},
}
PASSIVE_RECEIVES: Final[Effects] = {
    "REQ": {
        "LISTEN": "REQ_RCVD",
        "IDLE": "REQ_RCVD",  # a repeated REQ after a REJ is a new one to the receiver
        "TIMEWAIT": "REQ_RCVD",  # likewise after its REP was refused
        "UNKNOWN": "REQ_RCVD",
    },
    "RTU": {
        "REP_SENT": "ESTABLISHED",
        "MRA_REP_RCVD": "ESTABLISHED",
        "ESTABLISHED": "ESTABLISHED",  # data came first (COMM_EST)
        "UNKNOWN": "ESTABLISHED",
    },
    "MRA 1": {"REP_SENT": "MRA_REP_RCVD", "MRA_REP_RCVD": "MRA_REP_RCVD", "UNKNOWN": "MRA_REP_RCVD"},
    "REJ": {
        "REQ_RCVD": "IDLE",
        "MRA_REQ_SENT": "IDLE",
        "REP_SENT": "IDLE",
        "MRA_REP_RCVD": "IDLE",
        "ESTABLISHED": "TIMEWAIT",
        "DREQ_SENT": "TIMEWAIT",
        "UNKNOWN": "IDLE",
    },
    "REJ 10": {
        "REQ_RCVD": "TIMEWAIT",
        "MRA_REQ_SENT": "TIMEWAIT",
        "REP_SENT": "TIMEWAIT",
        "MRA_REP_RCVD": "TIMEWAIT",
        "ESTABLISHED": "TIMEWAIT",
        "DREQ_SENT": "TIMEWAIT",
        "UNKNOWN": "TIMEWAIT",
    },
    "SIDR_REQ": {"LISTEN": "SIDR_REQ_RCVD", "SIDR_REQ_RCVD": "SIDR_REQ_RCVD", "IDLE": "SIDR_REQ_RCVD"},
    **_CLOSING_RECEIVES,
    "DREQ": {**_CLOSING_RECEIVES["DREQ"], "REP_SENT": "DREQ_RCVD", "MRA_REP_RCVD": "DREQ_RCVD"},
}

# Out of order for an observer, but the sender's state is beyond doubt: earlier messages were not captured.
PROVED: Final[dict[Role, Effects]] = {
    "active": {
        "RTU": {"REQ_SENT": "ESTABLISHED", "MRA_REQ_RCVD": "ESTABLISHED"},
        "DREQ": {"REQ_SENT": "DREQ_SENT", "MRA_REQ_RCVD": "DREQ_SENT"},
        "DREP": {"ESTABLISHED": "TIMEWAIT"},
        "REJ": {"ESTABLISHED": "TIMEWAIT"},
    },
    "passive": {
        "REP": {"LISTEN": "REP_SENT", "IDLE": "REP_SENT"},
        "DREP": {"ESTABLISHED": "TIMEWAIT", "REP_SENT": "TIMEWAIT"},
        "REJ": {"ESTABLISHED": "TIMEWAIT"},
        "DREQ": {"REQ_RCVD": "DREQ_SENT", "MRA_REQ_SENT": "DREQ_SENT"},
    },
}

# An answer proves its question: who is sent a DREP had sent a DREQ, captured or not, and has closed.
ANSWERED: Final[Effects] = {
    "DREP": dict.fromkeys(("REP_RCVD", "MRA_REP_SENT", "REP_SENT", "MRA_REP_RCVD", "ESTABLISHED"), "TIMEWAIT")
}

SENDS: Final[dict[Role, Effects]] = {"active": ACTIVE_SENDS, "passive": PASSIVE_SENDS}
RECEIVES: Final[dict[Role, Effects]] = {"active": ACTIVE_RECEIVES, "passive": PASSIVE_RECEIVES}
STATES: Final[dict[Role, tuple[State, ...]]] = {"active": ACTIVE_STATES, "passive": PASSIVE_STATES}


Transition = tuple[State, State, Literal["accepted", "ignored", "unexpected"]]
"""The active and the passive state after a message, and what it was; ignored: without effect on the receiver."""

Key = tuple[State, State, Role, str]


def _joint() -> dict[Key, Transition]:
    table: dict[Key, Transition] = {}
    receiver_of: dict[Role, Role] = {"active": "passive", "passive": "active"}
    for sender, receiver in receiver_of.items():
        for message in MESSAGES:
            proper, proved = SENDS[sender].get(message, {}), PROVED[sender].get(message, {})
            effects, answered = RECEIVES[receiver].get(message, {}), ANSWERED.get(message, {})
            for before, sent in {**proved, **proper}.items():
                for receiving in STATES[receiver]:
                    received = effects.get(receiving)
                    disposition: Literal["accepted", "ignored", "unexpected"]
                    disposition = "unexpected" if before not in proper else "accepted" if received else "ignored"
                    after = (sent, received or answered.get(receiving, receiving))
                    states, new = ((before, receiving), after)
                    if sender == "passive":
                        states, new = (receiving, before), (after[1], after[0])
                    table[(*states, sender, message)] = (*new, disposition)
    return table


JOINT: Final = _joint()
"""By active state, passive state, sender and message. What has no entry is unexpected, and both states stay."""
