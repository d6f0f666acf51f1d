"""The states of the two ends and the outcomes of a connection.

The state names are those of Linux (enum ib_cm_state); IBA 12.9.7.1 (active side) and 12.9.7.2 (passive side) define
the states. What an end does was read in drivers/infiniband/core/cm.c.
"""

from __future__ import annotations

from ibcmtool.explanations.entry import Explanation
from ibcmtool.model import Outcome, State


def _state(name: State, title: str, meaning: str, following: str) -> Explanation:
    return Explanation(name, "state", title, (("Meaning", meaning), ("What follows", following)))


def _outcome(name: Outcome, title: str, meaning: str) -> Explanation:
    return Explanation(name, "outcome", title, (("Meaning", meaning),))


EXPLANATIONS = [
    _state(
        "UNKNOWN",
        "the capture does not tell",
        "The capture starts inside the connection, or the message that would tell is missing. It is no state of the "
        "CM.",
        "Messages that prove a state.",
    ),
    _state(
        "IDLE",
        "no connection",
        "No connection state is held: nothing was sent yet, or the connection has ended and timewait (if any) is over.",
        "Active: sending a REQ leads to REQ_SENT. Passive: receiving one leads to REQ_RCVD.",
    ),
    _state(
        "LISTEN",
        "a listener waits for REQs",
        "A service ID is registered. The listener itself is no connection: each REQ makes a new one.",
        "A REQ for the service makes a connection in REQ_RCVD; a REQ for a service that nobody listens on gets REJ 8.",
    ),
    _state(
        "REQ_SENT",
        "active: the REQ is out",
        "Waits for REP, REJ or MRA. It repeats the REQ after each timeout, Max CM Retries times, then gives up "
        "silently (illumos: with REJ 4).",
        "REP: REP_RCVD. MRA: MRA_REQ_RCVD. REJ: IDLE, for reason 10 TIMEWAIT. No answer after all retries: IDLE.",
    ),
    _state(
        "MRA_REQ_RCVD",
        "active: the peer asked for more time",
        "An MRA came for the REQ: the peer is thinking. The next repetition waits for the MRA's Service Timeout.",
        "REP: REP_RCVD. REJ: IDLE, for reason 10 TIMEWAIT.",
    ),
    _state(
        "REP_RCVD",
        "active: the REP is here",
        "The program decides. From here on Linux holds the peer's QPN and refuses other REQs and REPs that name it.",
        "Sending RTU: ESTABLISHED. Sending REJ: IDLE. Receiving REJ: TIMEWAIT.",
    ),
    _state(
        "MRA_REP_SENT",
        "active: asked the peer to wait for the RTU",
        "As REP_RCVD, after an MRA for the REP. Linux enters it right after the REP and sends the MRA only when the "
        "REP is repeated: in 7.2 ib_cm itself does so for every consumer, in older kernels rdma_cm asks for it.",
        "Sending RTU: ESTABLISHED. Sending REJ: IDLE. Receiving REJ: TIMEWAIT.",
    ),
    _state(
        "REQ_RCVD",
        "passive: the REQ is here",
        "The program decides. From here on Linux holds the peer's QPN and refuses other REQs and REPs that name it.",
        "Sending REP: REP_SENT. Sending MRA: MRA_REQ_SENT. Sending REJ: IDLE.",
    ),
    _state(
        "MRA_REQ_SENT",
        "passive: asked the peer to wait for the REP",
        "As REQ_RCVD, after an MRA for the REQ. Linux enters it right after the REQ and sends the MRA only when the "
        "REQ is repeated: in 7.2 ib_cm itself does so for every consumer, in older kernels rdma_cm asks for it.",
        "Sending REP: REP_SENT. Sending REJ: IDLE.",
    ),
    _state(
        "REP_SENT",
        "passive: the REP is out",
        "Waits for the RTU. It repeats the REP after each timeout, Max CM Retries times. A repeated REQ is dropped: "
        "the REP's own timer serves it. The first data packet can stand in for the RTU. On Linux it does so only if "
        "the program calls rdma_notify then: isert, rds and rtrs do, the NFS/RDMA server does not, and a program in "
        "user space has to do it itself.",
        "RTU (or data): ESTABLISHED. MRA: MRA_REP_RCVD. DREQ: DREQ_RCVD. Receiving REJ: IDLE, for reason 10 TIMEWAIT. "
        "Sending REJ: TIMEWAIT.",
    ),
    _state(
        "MRA_REP_RCVD",
        "passive: the peer asked for more time",
        "An MRA came for the REP. The next repetition waits for the MRA's Service Timeout.",
        "RTU (or data): ESTABLISHED. DREQ: DREQ_RCVD. Receiving REJ: IDLE, for reason 10 TIMEWAIT. Sending REJ: "
        "TIMEWAIT.",
    ),
    _state(
        "ESTABLISHED",
        "both may send",
        "The QPs are connected. A REQ or REP that names the peer's QPN now proves that the peer has lost this "
        "connection: it is refused with REJ 10, and a DREQ closes the old connection (IBA 12.9.8.3.1).",
        "Sending DREQ: DREQ_SENT. Receiving DREQ: DREQ_RCVD. A program that destroys the connection "
        "right after its DREQ (nvme-rdma always does), or dies: that one DREQ, never repeated.",
    ),
    _state(
        "DREQ_SENT",
        "closing: the DREQ is out",
        "Waits for the DREP; repeats the DREQ after each timeout, Max CM Retries times.",
        "DREP: TIMEWAIT. The peer's own DREQ: DREQ_RCVD (both closed at once). No answer after all retries: TIMEWAIT.",
    ),
    _state(
        "DREQ_RCVD",
        "closing: the peer's DREQ is here",
        "The program gets to know. In Linux the DREP goes out when the program disconnects, not before; until then a "
        "repeated DREQ is dropped, and counted in cm_rx_duplicates/dreq.",
        "Sending DREP: TIMEWAIT.",
    ),
    _state(
        "TIMEWAIT",
        "closed, late packets may still come",
        "The connection is over, but its QP must stay in reset, init or error so that late packets are discarded (IBA "
        "12.4). A repeated DREQ is answered with a DREP again. See the term timewait.",
        "After the timewait interval: IDLE. Nothing on the wire marks its end.",
    ),
    _state(
        "SIDR_REQ_SENT",
        "a service ID is being resolved",
        "A SIDR_REQ asks for the QPN and Q_Key of a datagram service; it is repeated like a REQ.",
        "SIDR_REP, or the end of the retries: IDLE.",
    ),
    _state(
        "SIDR_REQ_RCVD",
        "asked to resolve a service ID",
        "The program decides about a SIDR_REQ.",
        "Sending SIDR_REP: IDLE.",
    ),
    _outcome(
        "connecting",
        "still being set up",
        "The capture ends, or stands now, before the handshake was finished or refused.",
    ),
    _outcome("established", "open", "REQ and REP were exchanged and RTU or data followed; no end was seen."),
    _outcome(
        "closed",
        "ended by DREQ",
        "The connection was established and then closed with DREQ and DREP, or with a DREQ that ended it alone.",
    ),
    _outcome(
        "rejected",
        "refused by REJ",
        "One side refused. The REJ's reason says why: `ibcmtool explain rej:N`; reason 28 comes from the program "
        "above the CM, whose private data says more.",
    ),
    _outcome(
        "timed_out",
        "nobody answered",
        "A REQ or REP was repeated as often as Max CM Retries allows, or its sender gave up before (REJ 4), and nobody "
        "accepted or refused. Where the capture has nothing of the target, the REQs did not reach its CM or the "
        "answers took another way (H18); a missing listener is not silent, it shows as REJ 8. An MRA and then nothing "
        "is a living CM whose program hangs (R17). A REJ 4 soon after the first REQ is the limit of the requester's "
        "program: nvme-rdma before Linux 6.0 waits 3 s, since then as long as the REQs go on.",
    ),
    _outcome(
        "stale",
        "one side had lost it",
        "A REQ or REP proved that one side no longer knew the connection: either the attempt was refused with REJ 10 "
        "because the receiver still held the QPN, or this is the older connection that it was refused for. The older "
        "one may be from before the capture: the REJ 10 and the DREQ behind it, which names the same QPN, prove it.",
    ),
    _outcome(
        "half_open",
        "one side ended it, the other did not",
        "One side gave up or closed without the other's consent (DREQ unanswered to the end, REJ after REP), so the "
        "other may hold the connection until something proves it stale.",
    ),
    _outcome("resolved", "service ID resolved", "A SIDR_REQ was answered with a QPN and a Q_Key."),
    _outcome(
        "partial",
        "the capture starts inside",
        "The REQ is not in the capture; what later messages show is given.",
    ),
]
