"""Scenes in which programs or hosts fail, or do what they must not."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

from worlds.consumers import SERVICE, Server
from worlds.host import Host
from worlds.scene import call, scene, serve, usual_think, work

if TYPE_CHECKING:
    from worlds.world import World


# -- programs fail -----------------------------------------------------------------------------------------------------


@scene()
def killed(world: World, rng: Random) -> None:
    """A server or a client is killed: one DREQ for each connection. Clients come back."""
    a, b = world.host(), world.host()
    server = serve(world, b, think=usual_think(rng))
    clients = [
        call(world, 0.1 + rng.uniform(0, 5), a, b, hold=rng.choice((None, 30.0)), again=rng.choice((0, 2)))
        for _ in range(rng.choice((1, 2, 3)))
    ]
    end = rng.uniform(1, 20)
    if rng.random() < 0.5:
        world.at(end, "server killed", server.killed)
        serve(world, b, end + rng.uniform(0.1, 5), think=usual_think(rng))
    else:
        for client in clients:
            world.at(end, "client killed", client.killed)
        call(world, end + rng.uniform(0.1, 10), a, b, **work(rng))


@scene()
def hung(world: World, rng: Random) -> None:
    """The server's program hangs, or the client's between REP and RTU."""
    a, b = world.host(), world.host()
    if rng.random() < 0.5:
        serve(world, b, answer="hang")
        call(world, 0.1, a, b, patience=rng.choice((None, 3.0, 30.0, 100.0)), again=rng.choice((0, 1)))
    else:
        serve(world, b, think=usual_think(rng))
        call(world, 0.1, a, b, hangs=True, patience=rng.choice((None, 3.0, 30.0)))


@scene()
def late(world: World, rng: Random) -> None:
    """Consumers that answer later than they may."""
    a, b = world.host(), world.host()
    allowed = 2 ** (world.habits.response_timeout - 8) / 1000
    serve(world, b, think=rng.choice((0.01, rng.uniform(0.9, 3) * allowed)))
    for number in range(rng.choice((1, 2))):
        think = rng.choice((0.01, rng.uniform(0.9, 3) * allowed))
        call(world, 0.1 + number * rng.uniform(0, 10), a, b, think=think, **work(rng))


@scene()
def nvme(world: World, rng: Random) -> None:
    """A host with keep-alive and little patience, whose target fails, and comes back."""
    a, b = world.host(), world.host()
    serve(world, b, think=usual_think(rng), keep_alive=rng.choice((5.0, 15.0)))
    for _ in range(rng.choice((1, 2))):
        call(
            *(world, 0.1 + rng.uniform(0, 0.01), a, b),
            hold=None,
            patience=rng.choice((3.0, None)),
            again=3,
            pause=10.0,
            notices=rng.choice((2.0, 5.0)),
        )
    failing = rng.choice((a, b))
    time = rng.uniform(5, 20)
    world.at(time, f"host {failing.number} fails", failing.stop)
    _return(world, rng, failing, time + rng.uniform(1, 40))


def _return(world: World, rng: Random, host: Host, time: float, **server: Any) -> None:
    """The host is there again, with its programs."""
    reload = rng.random() < 0.3

    def start(now: float) -> None:
        host.start(now, reload=reload)
        host.cm.servers[SERVICE] = Server(think=0.01, **server)

    world.at(time, f"host {host.number} {'reloads its driver' if reload else 'restarts'}", start)


# -- hosts fail --------------------------------------------------------------------------------------------------------


@scene()
def reboot(world: World, rng: Random) -> None:
    """A host restarts without a word and connects again: stale connections at its peer, which lets go of them."""
    a, b = world.host(), world.host()
    _reboots(world, rng, a, b)


@scene()
def no_dreq(world: World, rng: Random) -> None:
    """As before, but the peer is a Linux before 2016: it sends no DREQ after REJ 10."""
    a, b = world.host(), world.host(world.habit(forgets_dreq=True))
    _reboots(world, rng, a, b)


@scene()
def deaf(world: World, rng: Random) -> None:
    """As before, and the peer takes a REQ with a QPN that it holds connected."""
    a, b = world.host(), world.host(world.habit(takes_stale_req=True))
    _reboots(world, rng, a, b)


def _reboots(world: World, rng: Random, a: Host, b: Host) -> None:
    serve(world, b, think=usual_think(rng))
    count = rng.choice((1, 2, 3))
    for number in range(count):
        call(world, 0.1 + number * rng.uniform(0, 3), a, b, hold=rng.choice((None, None, 1.0, 100.0)))
    time = rng.uniform(2, 30)
    _return(world, rng, a, time)
    for number in range(rng.choice((1, count))):
        later = time + rng.uniform(0.1, 20) + number * 0.1
        call(world, later, a, b, again=rng.choice((0, 3)), pause=rng.choice((1.0, 5.0)), **work(rng))
    if rng.random() < 0.2:
        _return(world, rng, b, time + rng.uniform(-2, 25))


@scene()
def passive_reboot(world: World, rng: Random) -> None:
    """The server's host restarts: its REPs name QPNs that the client holds connected."""
    a, b = world.host(world.habit(takes_stale_rep=rng.random() < 0.4)), world.host()
    serve(world, b, think=usual_think(rng))
    for number in range(rng.choice((1, 2))):
        call(world, 0.1 + number * rng.uniform(0, 3), a, b, hold=rng.choice((None, None, 1.0)))
    time = rng.uniform(2, 30)
    _return(world, rng, b, time)
    call(world, time + rng.uniform(0.1, 20), a, b, **work(rng))


@scene()
def outage(world: World, rng: Random) -> None:
    """The power fails for all hosts; they come back one after the other, and so do their connections."""
    a, b = world.host(), world.host()
    serve(world, b, think=usual_think(rng))
    count = rng.choice((1, 2, 3))
    for number in range(count):
        call(world, 0.1 + number * rng.uniform(0, 3), a, b, hold=None, data=rng.random() < 0.4)
    time = rng.uniform(4, 20)
    for host in (a, b):
        world.at(time, f"host {host.number} fails", host.stop)
        _return(world, rng, host, time + rng.uniform(1, 60))
    for number in range(count):
        call(world, time + 61 + number * 0.1, a, b, **work(rng))


@scene()
def ghosts(world: World, rng: Random) -> None:
    """A network that doubles packets and delays the copies: CMs take late REQs for new ones."""
    if "doubled" not in world.mended:
        world.network.conditions.doubled = 0.2
    a, b = world.host(), world.host()
    serve(world, b, think=usual_think(rng))
    for number in range(rng.choice((1, 2, 3))):
        call(world, 0.1 + number * rng.uniform(0, 10), a, b, hold=rng.uniform(0.1, 3), data=rng.random() < 0.4)


@scene()
def silent(world: World, rng: Random) -> None:
    """The target is down, or goes down between REQ and RTU."""
    a, b = world.host(), world.host()
    serve(world, b, think=usual_think(rng))
    if rng.random() < 0.7:
        call(world, 0.1, a, b, **work(rng))
    time = rng.uniform(0.1, 20)
    world.at(time, "host 2 fails", b.stop)
    call(world, max(0.1, time + rng.uniform(-0.01, 3)), a, b, patience=rng.choice((None, None, 3.0, 20.0)))
    if rng.random() < 0.3:
        _return(world, rng, b, time + rng.uniform(1, 100))


@scene()
def vanished(world: World, rng: Random) -> None:
    """The client's host fails: REPs or DREQs that nobody answers."""
    a, b = world.host(), world.host()
    serve(world, b, think=rng.choice((0.01, 1.0)), hold=rng.choice((None, 3.0)))
    call(world, 0.1, a, b, think=rng.choice((0.001, 1.0)), hold=None)
    world.at(rng.choice((0.11, rng.uniform(0.1, 2), rng.uniform(2, 5))), "host 1 fails", a.stop)


# -- QPNs in timewait --------------------------------------------------------------------------------------------------


@scene()
def hasty(world: World, rng: Random) -> None:
    """A QPN is used again at once."""
    a = world.host()
    b = world.host(world.habit(strict=rng.random() < 0.4))
    one = rng.choice((a, a, b))
    one.pool = "hasty"
    serve(world, b, think=usual_think(rng))
    call(
        *(world, 0.1, a, b),
        hold=rng.uniform(0.1, 3),
        data=rng.random() < 0.5,
        manner=rng.choice(("disconnect", "disconnect", "destroy")),
        again=rng.choice((1, 2, 4)),
        pause=rng.choice((0.01, rng.uniform(0, 3))),
        keep_qp=one is a and rng.random() < 0.5,
    )


@scene()
def user_space(world: World, rng: Random) -> None:
    """CMs in user space with fixed Communication IDs, and perhaps TransactionIDs, one connection after the other."""
    both = rng.random() < 0.5
    tids = Random(f"tids {world.seed}").random() < 0.3
    a = world.host(world.habit(fixed_ids=True, fixed_tids=tids))
    b = world.host(world.habit(fixed_ids=both, fixed_tids=tids and both))
    serve(world, b, think=usual_think(rng))
    call(world, 0.1, a, b, hold=rng.uniform(0.1, 5), again=rng.choice((1, 3)), pause=rng.uniform(1.5, 10))


# -- who is who --------------------------------------------------------------------------------------------------------


@scene()
def failover(world: World, rng: Random) -> None:
    """The target's address moves to another machine, with a CA of its own."""
    a, b, c = world.host(), world.host(), world.host()
    serve(world, b, think=usual_think(rng))
    serve(world, c, think=usual_think(rng))
    for number in range(rng.choice((1, 2))):
        hold = rng.choice((None, None, 2.0))
        call(world, 0.1 + number * rng.uniform(0, 3), a, b, hold=hold, notices=rng.choice((None, 3.0)), again=2)
    time = rng.uniform(2, 20)
    world.at(time, "host 2 fails", b.stop)

    arp = world.roce and rng.random() < 0.7

    def take_over(now: float) -> None:
        c.ip = b.ip
        world.network.holders[b.ip] = c
        if arp:
            world.network.announce(now, c)

    world.at(time + rng.uniform(0.1, 10), "host 3 takes over the address of host 2", take_over)
    call(world, time + rng.uniform(0, 20), a, b, **work(rng))


@scene()
def clones(world: World, rng: Random) -> None:
    """Two clients with one CA GUID: their QPNs collide, and the server takes one for the stale other."""
    server = world.host()
    one = world.host(guid=0x5054_00FF_FEAA_00AA)
    other = world.host(guid=0x5054_00FF_FEAA_00AA)
    other._first_qpn = one._first_qpn
    serve(world, server, think=usual_think(rng))
    time = 0.1
    for _ in range(rng.choice((2, 3, 4))):
        call(world, time, rng.choice((one, other)), server, **work(rng))
        time += rng.choice((rng.uniform(0, 1), rng.uniform(0, 30)))


@scene()
def mirrored(world: World, rng: Random) -> None:
    """Two servers' machines with one CA GUID, and clients that use both."""
    client, one, other = world.host(), world.host(guid=0x5054_00FF_FEAA_00AA), world.host(guid=0x5054_00FF_FEAA_00AA)
    other._first_qpn = one._first_qpn
    for server in (one, other):
        serve(world, server, think=usual_think(rng))
    time = 0.1
    for _ in range(rng.choice((2, 3, 4))):
        call(world, time, client, rng.choice((one, other)), **work(rng))
        time += rng.choice((rng.uniform(0, 1), rng.uniform(0, 30)))


@scene()
def orderly(world: World, rng: Random) -> None:
    """A host that is shut down ends its programs first, and comes back."""
    a, b = world.host(), world.host()
    serve(world, b, think=usual_think(rng))
    clients = [call(world, 0.1 + rng.uniform(0, 3), a, b, hold=None) for _ in range(rng.choice((1, 2, 3)))]
    time = rng.uniform(4, 20)
    for client in clients:
        world.at(time, "client killed", client.killed)
    _return(world, rng, a, time + rng.uniform(0.05, 30))
    for number in range(rng.choice((1, 2))):
        call(world, time + 30.1 + number, a, b, **work(rng))


@scene()
def illumos(world: World, rng: Random) -> None:
    """One side is illumos."""
    other = world.habit(illumos=True, strict=True)
    a, b = rng.choice(((world.habits, other), (other, world.habits), (other, other)))
    one, two = world.host(a), world.host(b)
    serve(world, two, think=usual_think(rng), answer=rng.choice(("accept", "accept", "accept", "hang", "reject")))
    for number in range(rng.choice((1, 2, 3))):
        call(world, 0.1 + number * rng.uniform(0, 20), one, two, think=usual_think(rng), **work(rng))
    if rng.random() < 0.3:
        world.at(rng.uniform(0.1, 30), "host 2 fails", two.stop)


@scene()
def broken(world: World, rng: Random) -> None:
    """A CM that breaks the protocol: wrong DREQs, too many or too early repetitions, deaf in timewait."""
    habit: dict[str, Any] = rng.choice(
        ({"wrong_qpn": True}, {"extra_sends": 2}, {"hurry": 0.4}, {"deaf_in_timewait": True})
    )
    a, b = world.host(world.habit(**habit)), world.host(world.habit(**habit) if rng.random() < 0.3 else world.habits)
    serve(world, b, think=rng.choice((0.01, 0.5)), answer=rng.choice(("accept", "accept", "accept", "hang")))
    for number in range(rng.choice((1, 2))):
        call(world, 0.1 + number * rng.uniform(0, 20), a, b, think=usual_think(rng), **work(rng))
    if rng.random() < 0.4:
        world.at(rng.uniform(0.1, 10), "host 2 fails", b.stop)
