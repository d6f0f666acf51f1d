"""Percentiles and the busiest second: exact for few values, bounded for many."""

from __future__ import annotations

from math import ceil
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ibcmtool.views.times import EXACT, MOST_SECONDS, Peak, Times

SECOND = 1_000_000_000
PERCENTS = (1, 50, 90, 99, 100)


def filled(values):
    times = Times()
    for value in values:
        times.add(value)
    return times


def nearest_rank(values, percent):
    return sorted(values)[max(ceil(len(values) * percent / 100), 1) - 1]


def test_nothing():
    times = Times()
    assert (times.count, times.maximum, times.percentile(50)) == (0, 0, 0)


@given(st.lists(st.integers(0, 1 << 66), min_size=1, max_size=200))  # clocks may lie by centuries
def test_few_values_are_exact(values):
    times = filled(values)
    assert times.exact
    assert times.maximum == max(values)
    for percent in PERCENTS:
        assert times.percentile(percent) == nearest_rank(values, percent)


@pytest.mark.parametrize("most", [100, 70_000, 10**9, 10**14])
def test_many_values_are_off_by_less_than_one_percent(most):
    random = Random(most)
    values = [int(most ** random.random()) for _ in range(3 * EXACT)]
    times = filled(values)
    assert not times.exact
    assert times.count == len(values)
    assert times.maximum == max(values)
    for percent in PERCENTS:
        expected = nearest_rank(values, percent)
        assert abs(times.percentile(percent) - expected) <= expected / 128


def test_memory_ends_where_the_classes_do():
    random = Random(1)
    times = filled(random.randrange(10**10) for _ in range(20 * EXACT))
    assert len(times._values) == 0
    assert len(times._classes) < 64 * 40


def test_a_time_before_its_start_is_left_out():
    assert filled([-5, 7]).count == 1


def test_the_busiest_second():
    peak = Peak()
    for time in (0.1, 1.2, 1.9, 1.999, 2.0, 0.2):
        peak.add(int(time * SECOND))
    assert (peak.number, peak.time) == (3, SECOND)


def test_busy_seconds_are_kept_when_quiet_ones_are_forgotten():
    peak = Peak()
    for second in range(3 * MOST_SECONDS):
        for _ in range(5 if second == 7 else 1):
            peak.add(second * SECOND)
    for _ in range(3):
        peak.add(7 * SECOND + 1)
    assert (peak.number, peak.time) == (8, 7 * SECOND)
    assert len(peak._counts) <= MOST_SECONDS
