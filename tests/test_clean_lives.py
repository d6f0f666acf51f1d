"""Clean lives get no error and no warning, however the network and the captures treat their packets.

IBCMTOOL_LIVES=20000 tries more of them; a failure names the seed, and `clean_lives(seed)` shows the case again.
"""

from __future__ import annotations

import os
from collections import Counter

import pytest
from conversation import Result, run
from lives import MAX_SENDS, WHERE, clean_lives

LIVES = int(os.environ.get("IBCMTOOL_LIVES", "1500"))
SLICES = 10  # so that they can run side by side
SAMPLE = range(150)


def judged(seed: int) -> Result:
    capture = clean_lives(seed)
    return run(capture.items, until=capture.until)


@pytest.mark.parametrize("part", range(SLICES))
def test_nobody_is_accused(part: int) -> None:
    accusations = [
        f"seed {seed}: {finding.severity} {finding.code} {finding.message}"
        for seed in range(part, LIVES, SLICES)
        for finding in judged(seed).findings
        if finding.severity != "info"
    ]
    assert accusations == []


def test_lives_end_as_their_cms_say() -> None:
    """With the whole capture in hand, nothing lost: a closed or a rejected connection for each life, and no finding."""
    seen = Counter[str]()
    for seed in range(1500):
        capture = clean_lives(seed)
        conditions = capture.conditions
        if conditions.loss or conditions.disorder or conditions.where == "both ends" or capture.until is None:
            continue
        result = run(capture.items, until=capture.until)
        if result.connections[0].request is None:
            continue  # the capture began later
        ends = [life.state["active"] for life in capture.lives]
        assert [connection.outcome for connection in result.connections] == [
            "closed" if end == "TIMEWAIT" else "rejected" for end in ends
        ]
        seen.update(ends)
    assert seen["TIMEWAIT"] > 20
    assert seen["IDLE"] > 2


def test_the_lives_are_hard_to_judge() -> None:
    """They hold what innocents are accused for: repetitions, MRAs, crossing DREQs, lost and late packets, cuts."""
    results = {seed: judged(seed) for seed in SAMPLE}
    connections = [connection for result in results.values() for connection in result.connections]
    marks = {mark for connection in connections for mark in connection.history}
    assert marks >= {"Q", "p", "U", "D", "d", "e", "E", "m", "j", "^"}
    assert max(connection.history.count("^Q") for connection in connections) < MAX_SENDS
    assert {"X05", "X08", "C02", "R04", "R07"} <= {code for result in results.values() for code in result.codes}
    assert {connection.outcome for connection in connections} >= {"closed", "rejected", "partial", "established"}
    assert {clean_lives(seed).conditions.where for seed in SAMPLE} == set(WHERE)


def test_a_seed_always_gives_the_same_capture() -> None:
    assert clean_lives(7).items == clean_lives(7).items
