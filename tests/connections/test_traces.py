"""What the numbers of a port's QP1 prove, and what they do not."""

from __future__ import annotations

from dataclasses import replace

from conversation import FIRST_DAY, SECOND, Conversation, Host

from ibcmtool.connections.traces import MOST_JUMPS, Traces
from ibcmtool.packets import CmMessage


def messages(*places: tuple[float, int]) -> list[CmMessage]:
    """REQs of one host, with these times and PSNs."""
    message = Conversation(Host("10.0.0.1")).active(0, "REQ")
    return [
        replace(message, frame=frame, time=FIRST_DAY + round(time * SECOND), psn=psn, mad=bytes([frame]) * 256)
        for frame, (time, psn) in enumerate(places, 1)
    ]


def traces(said: list[CmMessage]) -> Traces:
    found = Traces()
    for message in said:
        found.note(message)
    return found


def runs_on(said: list[CmMessage], first: int = 0, last: int = -1) -> bool:
    return traces(said).runs_on(said[0].source, said[first].time, said[last].time)


def test_numbers_that_run_on_prove_that_nothing_was_missed():
    assert runs_on(messages((0, 7), (1, 8), (2, 9)))
    assert not runs_on(messages((0, 7), (1, 9), (2, 10)))
    assert runs_on(messages((0, 7), (1, 9), (1.01, 8), (2, 10)))  # the gap is filled late


def test_copies_of_a_late_message_fill_one_gap():
    said = messages((0, 5007), (1, 5010), (1.01, 5009), (1.02, 5009), (2, 5011))
    said[3].mad = said[2].mad
    assert not runs_on(said)


def test_a_fall_to_the_first_numbers_is_a_restart():
    said = messages((0, 2007), (1, 2008), (20, 0), (21, 1))
    restart = traces(said).restart(said[0].source, said[0].time, said[-1].time)
    assert restart is not None
    assert (restart.before, restart.after) == (said[1], said[2])


def test_nothing_is_proved_across_a_step_back_of_time():
    back = messages((100, 7), (130, 8), (10, 9), (120, 10))
    assert not runs_on(back, 0, 1)
    assert runs_on(back, 2, 3)  # by the clock of the newest stretch


def test_what_was_counted_before_a_step_back_is_not_forgotten():
    said = messages((100, 7), (130, 10), (10, 12))
    assert traces(said).inputs[0].counts()[said[0].source][1:] == (3, 2)


def test_steps_back_beyond_memory():
    said = messages(*((1000 - 10 * at, at) for at in range(3 * MOST_JUMPS)))
    assert list(traces(said).inputs[0].jumps) == [message.frame for message in said[-MOST_JUMPS:]]


def test_what_no_input_has_between_two_of_them_is_missing():
    """The first one ended, the second one began later; while the first goes on, it tells itself."""
    one, *others = messages((0, 7), (1, 11), (1.1, 12))
    later = [replace(message, file=1) for message in others]
    gap = traces([one, *later]).gap(one.source, one.time, later[-1].time)
    assert gap is not None
    assert (gap.before, gap.after, gap.missing) == (one, later[0], 3)
    whole = messages((0, 7), (1, 8), (2, 9), (2.5, 10), (3, 11), (3.1, 12))
    again = [replace(message, file=1) for message in whole[4:]]
    assert traces([*whole, *again]).gap(one.source, one.time, whole[-1].time) is None


def test_an_input_that_has_the_later_numbers_earlier_had_its_clock_set():
    """Nothing is compared across that, and what it has from before says nothing about the other's time."""
    ahead = messages((15, 2003), (34, 2004))
    other = [replace(message, file=1) for message in messages((3600, 2001), (3601, 2002))]
    found = traces([*ahead, *other])
    assert list(found.inputs[0].jumps) == [ahead[-1].frame + 1]
    assert not found.runs_on(ahead[0].source, ahead[0].time, other[-1].time)
