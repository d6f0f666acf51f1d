"""Scenes in which nobody does anything wrong, and nothing fails but the wire."""

from __future__ import annotations

from functools import partial
from random import Random
from typing import TYPE_CHECKING

from worlds.consumers import SERVICE
from worlds.host import Host
from worlds.scene import call, scene, serve, usual_think, work

if TYPE_CHECKING:
    from worlds.world import World


@scene(innocent=True)
def quiet(world: World, rng: Random) -> None:
    """Clients come and go, one after the other or at once."""
    a, b = world.host(), world.host()
    for host in (a, b):
        host.pool = rng.choice(("counting", "patient"))
    serve(world, b, think=usual_think(rng))
    serve(world, a, think=usual_think(rng))
    time = 0.1
    for _ in range(rng.choice((1, 2, 3, 4))):
        one, other = rng.choice(((a, b), (a, b), (b, a)))
        call(world, time, one, other, think=usual_think(rng), **work(rng))
        time += rng.choice((0.0, rng.uniform(0, 1), rng.uniform(0, 30)))


@scene(innocent=True)
def crossing(world: World, rng: Random) -> None:
    """Both sides close."""
    a, b = world.host(), world.host()
    hold = rng.uniform(0.1, 20)
    serve(world, b, think=usual_think(rng), hold=hold + rng.uniform(-0.01, 0.01))
    for number in range(rng.choice((1, 2, 3))):
        call(world, 0.1 + number * rng.uniform(0, 10), a, b, hold=hold, data=rng.random() < 0.4)


@scene(innocent=True)
def slow(world: World, rng: Random) -> None:
    """Consumers that take their time: MRAs and repeated REQs and REPs."""
    a, b = world.host(), world.host()
    longest = 0.9 * 2 ** (world.habits.response_timeout - 8) / 1000
    serve(world, b, think=rng.uniform(0.1, 0.7) * longest)
    for number in range(rng.choice((1, 2))):
        call(world, 0.1 + number * rng.uniform(0, 10), a, b, think=rng.uniform(0, 0.7) * longest, **work(rng))


@scene(innocent=True)
def refused(world: World, rng: Random) -> None:
    """Nobody listens, or the consumer refuses; the client tries again, until perhaps somebody listens."""
    a, b = world.host(), world.host()
    if rng.random() < 0.5:
        serve(world, b, think=usual_think(rng), answer="reject")
    else:
        serve(world, b, rng.uniform(1, 20), think=usual_think(rng))
    call(world, 0.1, a, b, again=rng.choice((1, 3, 6)), pause=rng.choice((0.5, 3.0)), **work(rng))


@scene(innocent=True)
def crowd(world: World, rng: Random) -> None:
    """Several clients of one server."""
    server = world.host()
    serve(world, server, think=usual_think(rng))
    for _ in range(rng.choice((2, 3))):
        client = world.host()
        client.pool = rng.choice(("counting", "patient"))
        for _ in range(rng.choice((1, 2))):
            call(world, rng.uniform(0.1, 20), client, server, think=usual_think(rng), **work(rng))


@scene(innocent=True)
def mesh(world: World, rng: Random) -> None:
    """Each host connects to each other, as IPoIB and MPI programs do."""
    hosts = [world.host() for _ in range(3)]
    for host in hosts:
        serve(world, host, think=usual_think(rng))
    for one in hosts:
        for other in hosts:
            if one is not other and rng.random() < 0.7:
                call(world, rng.uniform(0.1, 1), one, other, think=usual_think(rng), **work(rng))


@scene(innocent=True)
def xrc(world: World, rng: Random) -> None:
    """Connections of the Extended Reliable Connection transport, whose REPs have their QPN in another field."""
    a, b = world.host(), world.host()
    serve(world, b, think=usual_think(rng))
    time = 0.1
    for _ in range(rng.choice((1, 2, 3))):
        call(world, time, a, b, think=usual_think(rng), xrc=True, **work(rng))
        time += rng.choice((rng.uniform(0, 1), rng.uniform(0, 30)))


@scene(innocent=True)
def paths(world: World, rng: Random) -> None:
    """Alternate paths are loaded (LAP and APR), as InfiniBand has them."""
    world.roce = False
    a, b = world.host(), world.host()
    serve(world, b, think=usual_think(rng))
    for number in range(rng.choice((1, 2))):
        call(world, 0.1 + number * rng.uniform(0, 10), a, b, think=usual_think(rng), paths=True, **work(rng))


@scene(innocent=True)
def datagrams(world: World, rng: Random) -> None:
    """SIDR: some services are there, others not, beside usual connections."""
    a, b = world.host(), world.host()
    serve(world, b, think=usual_think(rng))
    for _ in range(rng.choice((1, 2, 4))):
        service = rng.choice((SERVICE, SERVICE + 1))
        ask = partial(_resolve, a, b, service)
        world.at(rng.uniform(0.1, 30), f"host 1 asks host 2 for service 0x{service:x}", ask)
    if rng.random() < 0.5:
        call(world, rng.uniform(0.1, 10), a, b, think=usual_think(rng), **work(rng))


def _resolve(host: Host, target: Host, service: int, time: float) -> None:
    host.cm.resolve(time, target, service)


@scene(innocent=True)
def shared_address(world: World, rng: Random) -> None:
    """Two clients behind one address (NAT, or given twice by mistake): two QP1s count there, one beside the other."""
    world.roce = True
    server, one, other = world.host(), world.host(), world.host()
    other.ip = one.ip
    serve(world, server, think=usual_think(rng))
    time = 0.1
    for _ in range(rng.choice((2, 3, 4))):
        call(world, time, rng.choice((one, other)), server, think=usual_think(rng), **work(rng))
        time += rng.choice((0.0, rng.uniform(0, 1), rng.uniform(0, 30)))
