"""H24: a killed server, and a program that refuses by itself."""

from __future__ import annotations

from conversation import Conversation, Host, Result, run

SERVER = "10.0.0.2"


def served(clients: int) -> list[Conversation]:
    """Connections of as many clients to one service, open since the first second."""
    first = Conversation(Host("10.0.0.11"), Host(SERVER))
    lives = [first, *(first.another(Host(f"10.0.0.{number}")) for number in range(12, 11 + clients))]
    for number, life in enumerate(lives):
        life.establish(number / 100)
    return lives


def killed(*, pending_first: bool = False, words: bytes = b"", gap: float = 0.0004, before: bool = False) -> Result:
    """All connections are closed and a pending request is refused, so many seconds apart."""
    lives = served(4)
    pending = lives[0].another()
    req = pending.active(5, "REQ")
    if before:  # it has closed others in the course of its work
        for life in lives[:2]:
            life.close(4, by="passive")
        lives = lives[2:]
    at = 5.1
    if pending_first:
        pending.passive(at, "REJ", reason=28, private_data=words)
    for life in lives:
        at += gap
        life.passive(at, "DREQ")
        life.active(at + 0.5, "DREP")
    if not pending_first:
        pending.passive(at + gap, "REJ", reason=28, private_data=words)
    assert req.frame
    return run(lives[0], until=200)


def test_killed_server() -> None:
    """H24: whatever the order in which the kernel destroys what the program had."""
    finding = killed().only("H24")
    assert (finding.severity, finding.confidence, finding.related) == ("info", "probable", (5,))
    assert finding.message == (
        "The program behind RDMA TCP 7174 on 10.0.0.2 ended: it closed connection 1 (DREQ, frame 14) within 1.6 ms of"
        " the REJ 28 without private data to connection 5. Nobody refused that request."
    )
    assert killed(pending_first=True).only("H24").related == (5,)


def test_program_that_refuses() -> None:
    """H24: it says why, refuses at another time, or closes connections in the course of its work."""
    for innocent in (killed(words=b"quota exceeded"), killed(gap=0.1), killed(before=True)):
        assert "H24" not in innocent.codes
        assert innocent.connections[-1].outcome == "rejected"
