from __future__ import annotations

from ibcmtool.reports.ladder_entries import Entry, pauses

MS, S = 1_000_000, 1_000_000_000


def gaps(*times: int) -> list[int | None]:
    return pauses([Entry(time, "message") for time in times])


def test_a_second_of_silence_is_a_pause() -> None:
    assert gaps(0, 5 * MS, S + 5 * MS) == [None, None, S]
    assert gaps(0, 5 * MS, S + 4 * MS) == [None, None, 999 * MS]  # much longer than the other gap
    assert gaps(0, 400 * MS, 1300 * MS) == [None, None, None]


def test_a_short_silence_is_one_only_among_much_shorter_ones() -> None:
    assert gaps(0, MS, 2 * MS, 62 * MS) == [None, None, None, 60 * MS]
    assert gaps(0, 5 * MS, 10 * MS, 70 * MS) == [None, None, None, None]
    assert gaps(0, 1_000, 2_000, 40 * MS) == [None, None, None, None]


def test_nothing() -> None:
    assert gaps() == []
    assert gaps(7) == [None]


def test_the_ends_of_timewait_say_their_distance_themselves() -> None:
    assert pauses([Entry(0, "message"), Entry(2 * S, "timewait over")]) == [None, None]
