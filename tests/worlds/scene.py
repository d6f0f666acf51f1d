"""Scenes: each makes the hosts and consumers of one kind of world, and plans what happens to them."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING, Any

from worlds.consumers import SERVICE, Client, Server
from worlds.host import Host

if TYPE_CHECKING:
    from worlds.world import World

Scene = Callable[["World", Random], None]
SCENES: dict[str, Scene] = {}
INNOCENT: set[str] = set()


def scene(*, innocent: bool = False) -> Callable[[Scene], Scene]:
    """Enter a scene under its name."""

    def enter(function: Scene) -> Scene:
        SCENES[function.__name__] = function
        if innocent:
            INNOCENT.add(function.__name__)
        return function

    return enter


# -- what scenes are made of -------------------------------------------------------------------------------------------


def serve(world: World, host: Host, time: float = 0.0, service: int = SERVICE, **options: Any) -> Server:
    server = Server(**options)

    def listen(_: float) -> None:
        host.cm.servers[service] = server

    if time:
        world.at(time, f"host {host.number} listens", listen)
    else:
        listen(0.0)
    return server


def call(world: World, time: float, host: Host, target: Host, **options: Any) -> Client:
    client = Client(host, target, **options)
    world.at(time, f"host {host.number} connects to host {target.number} {options}", client.start)
    return client


def usual_think(rng: Random) -> float:
    return rng.choice((0.001, 0.01, rng.uniform(0.01, 0.9)))


def work(rng: Random) -> dict[str, Any]:
    return {"hold": rng.choice((0.5, rng.uniform(0.1, 5), rng.uniform(5, 60))), "data": rng.random() < 0.4}
