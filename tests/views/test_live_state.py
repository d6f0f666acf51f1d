"""What a live view shows: counts that stay right, the newest first, the worst findings."""

from __future__ import annotations

from collections import Counter

from conversation import Conversation, inputs_of

from ibcmtool.engine.engine import Engine
from ibcmtool.engine.sink import Sink
from ibcmtool.model import Connection, Event
from ibcmtool.views.live_state import LiveState

MINUTE = 60_000_000_000


def told(talk: Conversation, board: LiveState) -> dict[int, Connection]:
    """Show a conversation to the board; at each event its counts must be those of a recount. The open connections."""
    still_open: dict[int, Connection] = {}

    class Recount(Sink):
        def event(self, event: Event) -> None:
            board.event(event)
            still_open[event.connection.id] = event.connection
            if event.kind == "ENDED":
                del still_open[event.connection.id]
            assert +board.now == Counter(connection.outcome for connection in still_open.values())

    engine = Engine(inputs_of(talk.capture), Recount())
    for message in sorted(talk.capture, key=lambda message: message.time):
        engine.take(message)
    engine.advance(talk.capture[-1].time + 10 * MINUTE)
    return still_open


def test_counts_follow_each_connection() -> None:
    talk = Conversation()
    talk.establish()
    talk.another().establish(1)
    talk.close(2)
    refused = talk.another()
    refused.active(3, "REQ")
    refused.passive(3.1, "REJ", reason=8)
    board = LiveState(MINUTE)
    still_open = told(talk, board)
    assert +board.now == Counter({"established": 1})
    assert +board.past == Counter({"closed": 1, "rejected": 1})
    assert [connection.outcome for connection in still_open.values()] == ["established"]


def test_the_newest_first_and_what_ended_goes() -> None:
    talk = Conversation()
    talk.establish()
    second = talk.another()
    second.establish(1)
    third = talk.another()
    third.active(2, "REQ")
    third.passive(2.1, "REJ", reason=8)
    talk.active(3, "DREQ")
    board = LiveState(MINUTE)
    told(talk, board)
    end = talk.capture[-1].time
    # The refused one ended when nothing more could come of it; the DREQ of the first made it the newest.
    assert [connection.id for connection in board.connections(10, end)] == [1, 2, 3]
    assert [connection.id for connection in board.connections(1, end)] == [1]
    assert [connection.id for connection in board.connections(10, end + 20 * MINUTE)] == [1, 2]
