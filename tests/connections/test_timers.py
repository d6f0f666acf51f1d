"""The arithmetic of 5-bit times and of timewait, against values computed by hand."""

from __future__ import annotations

import pytest
from typed import typed

from ibcmtool.connections import timers

MS = 1_000_000


@pytest.mark.parametrize(
    ("n", "ns"), [(0, 4096), (8, 1_048_576), (14, 67_108_864), (20, 4_294_967_296), (31, 8_796_093_022_208)]
)
def test_nominal_times(n, ns):
    assert timers.exponent(n) == ns


@pytest.mark.parametrize(
    ("n", "ms"), [(0, 1), (7, 1), (8, 1), (9, 2), (16, 256), (18, 1024), (20, 4096), (22, 16384), (24, 65536)]
)
def test_linux_rounds_to_powers_of_two_milliseconds(n, ms):
    assert timers.linux(n) == ms * MS


@pytest.mark.parametrize(
    ("delay", "life", "expected"),
    [(15, 17, 18), (15, 14, 16), (15, 13, 16), (15, 10, 15), (0, 0, 2), (18, 18, 20), (31, 31, 31), (20, 2, 20)],
)
def test_cm_ack_timeout_of_linux(delay, life, expected):
    assert timers.cm_ack_timeout(delay, life) == expected


def request(lat=19, remote=20, local=20, retries=15):
    return typed(
        "REQ",
        primary_local_ack_timeout=lat,
        remote_cm_response_timeout=remote,
        local_cm_response_timeout=local,
        max_cm_retries=retries,
    )


def test_waits_of_both_sides():
    """Linux RoCE with packet life 18: 4.29 s asked for, 2 x 1.07 s of path on the active side only."""
    assert timers.response_wait(request(), "active") == (4096 * MS, 4_294_967_296 + 2 * 1_073_741_824, False)
    assert timers.response_wait(request(), "passive") == (4096 * MS, 4_294_967_296, False)
    assert timers.retry_budget(request(), "passive") == 16 * 4_294_967_296


def test_waits_without_a_captured_req_say_so():
    assert timers.response_wait(None, "active").assumed
    assert timers.response_wait(request(remote=None), "active").assumed
    sidr = typed("SIDR_REQ", request_id=1)
    assert timers.response_wait(sidr, "active").assumed
    assert timers.max_cm_retries(sidr) is None
