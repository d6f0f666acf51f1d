"""The judges: rules over the tracker's events, by the letter of their codes.

api.py says what a rule is, judge.py whom it asks, context.py what a rule may look at, conditions.py and steps.py what
several rules ask in the same way; facts/ is what is known of hosts, ports and captures.
"""

from __future__ import annotations

# Importing a family enters its rules into the catalogue.
from ibcmtool.rules import (
    alternate,
    budgets,
    capture,
    comm_ids,
    drep,
    dreq_qpns,
    envelope_fields,
    half_open,
    handshake,
    handshake_end,
    handshake_fields,
    handshake_late,
    handshake_rejects,
    handshake_repeats,
    implementations,
    integrity,
    loss,
    mra,
    neighbours,
    path_fields,
    peer_to_peer,
    qp_fields,
    reject_message,
    response_times,
    retries,
    service_fields,
    sidr,
    slow_answers,
    stale,
    stale_refusals,
    starting_psns,
    timewait,
)
from ibcmtool.rules.api import CATALOGUE, Rule
from ibcmtool.rules.cross import captures, connections
from ibcmtool.rules.judge import Judge

__all__ = ["CATALOGUE", "Judge", "Rule"]

FAMILIES = (
    alternate,
    budgets,
    capture,
    captures,
    comm_ids,
    connections,
    drep,
    dreq_qpns,
    envelope_fields,
    half_open,
    handshake,
    handshake_end,
    handshake_fields,
    handshake_late,
    handshake_rejects,
    handshake_repeats,
    implementations,
    integrity,
    loss,
    mra,
    neighbours,
    path_fields,
    peer_to_peer,
    qp_fields,
    reject_message,
    response_times,
    retries,
    service_fields,
    sidr,
    slow_answers,
    stale,
    stale_refusals,
    starting_psns,
    timewait,
)
