"""A world: hosts, consumers, a network, taps; what happens in it, what was captured of it, and what is true.

    world = World(seed)
    judgements = world.judge()

One seed makes one world. `kind` says what goes wrong in it (scenes.py); everything else is drawn. To shrink a world,
`left_out` names consumers and events, by their numbers, that it is to be without, and `mended` the flaws. With
`both_ends` there is a capture at each of the first two hosts, which holds all that passed there: what only one of them
holds of what the two sent each other was lost between them. Their clocks may be far apart.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from random import Random

from recordings import driven

from ibcmtool.analysis import Finding, Policy
from worlds import scenes
from worlds.host import Host
from worlds.ids import Habits
from worlds.network import Conditions, Network, Packet
from worlds.plan import Plan
from worlds.tap import Flaws, Tap
from worlds.truth import EXPECTED, Deed, Judgement, Truth, judged

NEARLY_ALL_PSNS = (1 << 24) - (1 << 10)  # beyond it a PSN may have wrapped
PROMPT = 0.02  # s in which a packet that is not held up comes by a tap
LONGEST = 1500.0  # s from the last planned event until every timer is over
AFTER = 400.0  # s that a capture goes on behind the last packet
BEFORE = 60.0  # s that those at both ends begin before the first one
CLOCKS_APART = 1.0, 1000.0  # s at most: as usual, and at both ends
DROPS = ("drops", "cut", "direction", "span", "step")  # flaws that captures at both ends are without

Mended = Collection[str]  # of "loss", "doubled", "late", "drops", "disorder", "cut", "direction", "span", "step"


class World:
    """One seed's world, run to its end when it is made."""

    def __init__(
        self,
        seed: int,
        kind: str | None = None,
        *,
        left_out: Collection[int] = (),
        mended: Mended = (),
        both_ends: bool = False,
    ) -> None:
        self.seed, self.left_out, self.both_ends = seed, left_out, both_ends
        self.mended = (*mended, *(DROPS if both_ends else ()))
        self.kind = kind or Random(seed).choice(scenes.KINDS)
        rng = self.rng = Random(f"{self.kind} {seed}")  # a new kind leaves the worlds of the others as they are
        self.policy: Policy = Random(f"policy {seed}").choice(("relaxed", "relaxed", "relaxed", "relaxed", "strict"))
        self.plan, self.truth = Plan(), Truth()
        conditions = Conditions.drawn(rng)
        for flaw in ("loss", "doubled", "late"):
            if flaw in mended:
                setattr(conditions, flaw, 0.0)
        self.network = Network(self.plan, Random(rng.random()), conditions)
        self.roce = rng.random() < 0.85
        self.habits = Habits(response_timeout=rng.choice((20, 20, 22, 18)), max_cm_retries=rng.choice((15, 7, 7, 3)))
        self.hosts: list[Host] = []
        self.what: list[str] = []  # the consumers and events, in words
        self._numbers = 0
        self.taps: list[Tap] = []
        self._last = 0.0
        scenes.SCENES[self.kind](self, Random(rng.random()))
        self._place_taps(Random(rng.random()))
        self.plan.run(self._last + LONGEST)
        self.end = max((packet.sent for packet in self.network.packets), default=0.0) + AFTER
        flaws_rng = Random(rng.random())
        self.flaws = [self._flaws(flaws_rng) for _ in self.taps]
        if len(self.taps) == 2:
            apart = CLOCKS_APART[both_ends]
            self.flaws[1].ahead = flaws_rng.choice((0.0, 0.0, flaws_rng.uniform(-apart, apart)))
        recording_rng = Random(rng.random())
        self.recordings = [
            tap.recording(flaws, recording_rng, self.end) for tap, flaws in zip(self.taps, self.flaws, strict=True)
        ]

    # -- what a scene makes ----------------------------------------------------------------------------------------

    def host(self, habits: Habits | None = None, *, guid: int | None = None) -> Host:
        """One more host."""
        number = len(self.hosts) + 1
        host = Host(self.network, self.truth, Random(self.rng.random()), number, habits or self.habits, guid=guid)
        host.queries = 0.0 if self.roce else 0.1
        self.hosts.append(host)
        return host

    def habit(self, **changes: bool | int) -> Habits:
        """The CM of this world with other habits."""
        return replace(self.habits, **changes)  # type: ignore[arg-type]

    def at(self, time: float, what: str, action: Callable[[float], None]) -> None:
        """Something happens at a time, unless it is left out."""
        self._numbers += 1
        if self._numbers in self.left_out:
            return
        self.what.append(f"{self._numbers}: {time:.3f} {what}")
        self._last = max(self._last, time)
        self.plan.at(time, action)

    @property
    def events_planned(self) -> int:
        """How many things happen by themselves."""
        return self._numbers

    # -- the captures ----------------------------------------------------------------------------------------------

    def _place_taps(self, rng: Random) -> None:
        where = rng.choice(("one", "one", "one", "midway", "both"))
        places: list[Host | None]
        if where == "both" or self.both_ends:
            places = [self.hosts[0], self.hosts[1]]
        elif where == "midway":
            places = [None]
        else:
            places = [rng.choice(self.hosts[:2])]
        for file, place in enumerate(places):
            tap = Tap(file, place, self.roce)
            self.taps.append(tap)
            self.network.watchers.append(tap.watch)

    def _flaws(self, rng: Random) -> Flaws:
        flaws = Flaws.drawn(rng, max((packet.sent for packet in self.network.packets), default=1.0))
        right = Flaws()
        for name in ("drops", "disorder", "cut", "direction", "step"):
            if name in self.mended:
                setattr(flaws, name, getattr(right, name))
        if "span" in self.mended:
            flaws.begins, flaws.ends = -BEFORE if self.both_ends else right.begins, right.ends
        return flaws

    @property
    def complete(self) -> bool:
        """Whether the captures show every packet that was ever sent, each in its place: none was long under way."""
        seen = {packet for tap in self.taps for time, packet in tap.seen if time < packet.sent + PROMPT}
        return all(flaws.none for flaws in self.flaws) and seen.issuperset(self.network.packets)

    @property
    def innocent(self) -> bool:
        """Whether nobody did anything wrong, and nothing failed but the wire."""
        return self.kind in scenes.INNOCENT

    @property
    def lost_between(self) -> set[Packet]:
        """Of two captures at both ends: what its sender's holds, and its receiver's never did."""
        ends = {tap.place: {packet for _, packet in tap.seen} for tap in self.taps}
        receiver = {place.mac: place for place in ends if place is not None}
        return {
            packet
            for place, seen in ends.items()
            for packet in seen
            if packet.sender.host is place
            and packet.destination_mac in receiver
            and packet not in ends[receiver[packet.destination_mac]]
        }

    def packets_of(self, finding: Finding) -> list[Packet]:
        """The packets that a finding names by their frames."""
        shown = [self.taps[file].shown.get(frame) for file, frame in finding.frames]
        return [packet for packet in shown if packet is not None]

    def findings(self) -> list[Finding]:
        """What the engine says of the captures, driven as for files."""
        return driven(self.recordings, self.policy).findings

    def judge(self) -> tuple[list[Judgement], list[Deed]]:
        """The findings that are judged, and the deeds that a complete capture ought to have shown but did not."""
        findings = self.findings()
        deeds = self.truth.deeds
        judgements = [
            judgement
            for finding in findings
            if (judgement := judged(finding, deeds, self.packets_of(finding))) is not None
        ]
        return judgements, self._missed(findings, deeds) if self.complete else []

    def expected(self) -> list[str]:
        """The codes of the deeds that the captures must show."""
        return [deed.code for deed in self._expected(self.truth.deeds)] if self.complete else []

    def _expected(self, deeds: Sequence[Deed]) -> list[Deed]:
        """Of these deeds, those that a complete capture must show."""
        late = self.end - AFTER / 2
        return [
            deed
            for deed in deeds
            if deed.code in EXPECTED
            and deed.due <= late
            and (deed.code != "X03" or self._restart_shows(deed))
            and (deed.code != "S06" or self.policy == "relaxed")  # else it was right to refuse
        ]

    def _restart_shows(self, deed: Deed) -> bool:
        """Whether the PSN of its first REQ or REP afterwards is smaller than before, and that for no other reason."""
        sent = [p for p in self.network.packets if p.sender.host is deed.host and p.kind in ("REQ", "REP")]
        before = [packet for packet in sent if packet.sent < deed.time]
        after = [packet for packet in sent if packet.sent >= deed.time]
        return bool(before and after) and after[0].psn < before[-1].psn < NEARLY_ALL_PSNS

    def _missed(self, findings: Sequence[Finding], deeds: Sequence[Deed]) -> list[Deed]:
        told = [(finding.code, self.packets_of(finding)) for finding in findings]
        if any(code == "X12" for code, _ in told):  # it is told once for all refusals that come of it
            told += [(deed.code, deed.packets) for deed in deeds if deed.code == "X12"]
        missed = []
        for deed in self._expected(deeds):
            codes = EXPECTED[deed.code]
            if not any(code in codes and deed.shows_in(packets) for code, packets in told):
                missed.append(deed)
        return missed
