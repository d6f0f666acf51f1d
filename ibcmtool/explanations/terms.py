"""Words that findings and reports use, and the argument about the specification behind two of them."""

from __future__ import annotations

from ibcmtool.explanations.entry import Explanation


def _term(name: str, title: str, sections: dict[str, str]) -> Explanation:
    return Explanation(name, "term", title, tuple(sections.items()))


EXPLANATIONS = [
    _term(
        "timewait",
        "timewait: the pause after which a closed QP may serve again",
        {
            "Meaning": (
                "An RC or UC packet carries no source QPN: a late packet of an old connection looks like one of the "
                "new if its QPN is in use again. So after closing, a QP stays in reset, init or error until the "
                "network has had time to drop what was under way (IBA 12.4). Each end has its own interval."
            ),
            "How long": (
                "Nothing on the wire marks the end; it is computed from the Local ACK Timeout of the REQ and the "
                "Target ACK Delay of the REP. ibcmtool gives three moments for each end: Dmin (no known implementation "
                "ends it earlier), likely (where Linux ends it), Dmax (every known implementation has ended it). In "
                "Linux the passive side takes the Local ACK Timeout of the REQ, and so does the active side where both "
                "adapters have the same ack delay. See the terms Dmin and Dmax."
            ),
            "Who enters it": (
                "The receiver of a DREP, the sender of a DREP, whoever exhausts its DREQs, the receiver of REJ 10, the "
                "sender of a REJ after its own REP, and the receiver of any REJ after the REP. In Linux a program that "
                "dies leaves no effective timewait: its QP and QPN are free at once."
            ),
            "The argument": (
                "Two readings of the specification differ on a REQ that names a QPN in the *receiver's* timewait: see "
                "the terms strict and relaxed. An owner that reuses its own QPN in its own timewait is wrong under "
                "both (T01)."
            ),
        },
    ),
    _term(
        "stale",
        "stale connection: only one side still holds the connection",
        {
            "Meaning": (
                "One side has lost its state - crash, reboot, a DREQ or REJ that never arrived - and the other has not "
                "noticed (IBA 12.4.1)."
            ),
            "How it shows": (
                "The side that lost it connects again with a QPN that the other still holds as connected. The receiver "
                "must refuse with REJ 10, then close the old connection with a DREQ that names that QPN (IBA "
                "12.9.8.3.1): in captures of Linux within some milliseconds. A host that rebooted shows also by its "
                "QP1 PSNs, which begin again near 0 (X03). One DREQ that nobody answered is no sign by itself: "
                "programs that end a connection at once send just one (S12). See S02 and rej:10."
            ),
        },
    ),
    _term(
        "half-open",
        "half-open connection: one side has ended the connection, the other has not",
        {
            "Meaning": (
                "It comes from an unanswered DREQ, from a REJ that was lost, or from the loss of a single DREQ: a "
                "program that dies or destroys its connection right away sends no second one. Until something proves "
                "it stale, the other side keeps its QP and waits. See S11 and S12."
            ),
        },
    ),
    _term(
        "strict",
        "policy strict: a REQ that names a QPN in the receiver's timewait is stale",
        {
            "In short": (
                "Two hosts have closed a connection, and one of them connects again at once with the same QPN. Under "
                "this policy the other host has to refuse that (REJ 10) until its own timewait is over. Choose it "
                "when the receiver runs illumos or Linux up to 2.6.18, which do so."
            ),
            "What to do": (
                "If an attempt was refused for this reason, connect with another QPN, or wait some seconds until the "
                "receiver's timewait is over."
            ),
            "Reading": (
                "IBA 12.4 has the CM put both QPNs, the local and the remote, into timewait. That a REQ with the "
                "remote QPN must then be refused with REJ 10 is inferred from it; the text does not say so. Sean "
                "Hefty had read 12.4 like that as a reason to refuse, and gave way in the same mail of the "
                "discussion of 2006."
            ),
            "Changes": "S05 (such a REQ was accepted) is an error; S06 (it was refused) is no finding.",
        },
    ),
    _term(
        "relaxed",
        "policy relaxed: stale means connected: a REQ within the receiver's timewait is a new connection",
        {
            "In short": (
                "Two hosts have closed a connection, and one of them connects again at once with the same QPN. Under "
                "this policy, the default, the other host may accept that, as Linux does since 2.6.19."
            ),
            "What to do": (
                "Nothing on the receiver. Look at the host that connects: it should not use its own QPN again before "
                "its own timewait is over (T01), under either policy."
            ),
            "Reading": (
                "IBA 12.9.7.1 and 12.9.7.2 have the check for stale connections in the Established state and list no "
                "action for a REQ in TimeWait; that was Sean Hefty's point. Michael S. Tsirkin's was that there are "
                "two kinds of QPN, and none is both: remote QPNs of connected QPs, which are refused, and local QPNs "
                "in timewait, which bind their owner. After DREQ and DREP both sides have agreed to close, so no "
                "question is left. A relaxed CM still keeps the remote QPN through its timewait: a repeated DREQ is "
                "checked against it."
            ),
            "Changes": (
                "S05 (such a REQ was accepted) is worth knowing, not an error; S06 (it was refused) is a warning."
            ),
        },
    ),
    _term(
        "Dmin",
        "Dmin: the shortest timewait that any known implementation keeps",
        {
            "Passive side": (
                "What Linux takes: the Local ACK Timeout of the REQ as an exponent n, 2^(n-8) milliseconds (at least 1 "
                "ms)."
            ),
            "Active side": (
                "The path's packet lifetime is not on the wire, so the Target ACK Delay of the REP alone is a safe "
                "lower bound, in the same scale."
            ),
            "Use": "Reuse before Dmin is certain (T01, error); after it, only probable or possible (T02).",
        },
    ),
    _term(
        "Dmax",
        "Dmax: when every known implementation has ended timewait",
        {
            "Value": (
                "4.096 microseconds times 2^(n+1), n being the larger of the REQ's Local ACK Timeout and the REP's "
                "Target ACK Delay, at most 31."
            ),
            "Use": "A QPN that comes back after Dmax is no finding.",
        },
    ),
    _term(
        "retransmission",
        "retransmission: the same message sent again",
        {
            "Meaning": (
                "The same 256 bytes with another BTH PSN: the CM got no answer in time. REQ, REP and DREQ are repeated "
                "by their timers, up to Max CM Retries times; RTU, MRA, DREP answer a repeated message; a REJ is sent "
                "once."
            ),
            "Not to be confused": "The same bytes with the same PSN are one packet that was captured twice (X05).",
        },
    ),
]
