"""Counts of what the judge gets right and wrong over many worlds."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import NamedTuple

from worlds.truth import Deed, Judgement
from worlds.world import World

MISSED = "missed"  # in the place of a severity


class Failure(NamedTuple):
    """One finding that is not true, or one deed that was not told."""

    code: str
    seed: int
    kind: str
    severity: str
    confidence: str
    text: str


@dataclass
class Tally:
    """By code. `false` counts by (code, severity, confidence), `true` as well."""

    worlds: int = 0
    messages: int = 0
    true: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    false: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    overclaimed: Counter[str] = field(default_factory=Counter)
    expected: Counter[str] = field(default_factory=Counter)  # deeds that complete captures hold
    missed: Counter[str] = field(default_factory=Counter)
    failures: list[Failure] = field(default_factory=list)

    def worlds_with(self, *, missed: bool) -> Counter[str]:
        """By code: worlds with a finding that is not true, or with a deed that was not told."""
        worlds = {(failure.code, failure.seed) for failure in self.failures if (failure.severity == MISSED) == missed}
        return Counter(code for code, _ in worlds)

    def add(self, world: World) -> None:
        judgements, missed = world.judge()
        self.worlds += 1
        self.messages += sum(len(recording.items) for recording in world.recordings)
        for judgement in judgements:
            self._judged(world, judgement)
        self.expected.update(world.expected())
        for deed in missed:
            self._missed(world, deed)

    def take(self, other: Tally) -> None:
        """Count what another one counted, of other worlds."""
        self.worlds += other.worlds
        self.messages += other.messages
        for name in ("true", "false", "overclaimed", "expected", "missed"):
            getattr(self, name).update(getattr(other, name))
        self.failures += other.failures

    def _judged(self, world: World, judgement: Judgement) -> None:
        finding = judgement.finding
        key = finding.code, finding.severity, finding.confidence
        if judgement.verdict == "true" and not (world.innocent and finding.severity == "error"):
            self.true[key] += 1
            return
        if judgement.verdict == "overclaimed":
            self.overclaimed[finding.code] += 1
        else:
            self.false[key] += 1
        text = finding.message if judgement.deed is None else f"{finding.message} [{judgement.deed.note}]"
        self.failures.append(Failure(finding.code, world.seed, world.kind, finding.severity, finding.confidence, text))

    def _missed(self, world: World, deed: Deed) -> None:
        self.missed[deed.code] += 1
        self.failures.append(Failure(deed.code, world.seed, world.kind, MISSED, "", deed.note))
