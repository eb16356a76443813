"""What a fit can afford in the minutes it has: which networks, on how many folds, for how many epochs and seeds."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from pydantic import BaseModel, ConfigDict, NonNegativeInt, PositiveInt

from outland.errors import counted

SEEDS = 3  # of each network in the delivered model, where time allows
_EVALUATION = 0.35  # time of predicting a row, in units of training on it
_FEWEST_FOLDS, _FEWEST_EPOCHS = 2, 4
_CHEAP = 60.0  # seconds that all folds of trees may take in any case

# What is given up, first to last: repeats of the folds, then seeds; then a network; of the last one also epochs and
# folds. Shares of the epochs, which folds, and seeds.
_OFFERS = ((1.0, "repeats", 3), (1.0, "all", 3), (1.0, "all", 2), (1.0, "all", 1))
_LAST_OFFERS = (*_OFFERS, (0.7, "all", 1), (0.5, "all", 1), (0.5, "some", 1), (0.3, "some", 1))
_SOME = 3  # folds


class _PlanFile(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")
    networks: list[str]
    folds: PositiveInt
    epochs: NonNegativeInt
    seeds: NonNegativeInt
    notes: list[str]
    left_out: dict[str, str]


@dataclass(frozen=True)
class Plan:
    """What is trained.

    Args:
        networks: that are trained.
        folds: that are used, from the first on.
        epochs: that learning rates are scheduled for.
        seeds: of each network in the delivered model, for all epochs.
        notes: what was given up, in sentences.
        left_out: reasons by contender.
    """

    networks: tuple[str, ...]
    folds: int
    epochs: int
    seeds: int
    notes: tuple[str, ...] = ()
    left_out: Mapping[str, str] = field(default_factory=dict)

    def seeds_for(self, epochs: int) -> int:
        """Seeds of a network that is trained for so many epochs: more than planned where folds chose fewer epochs."""
        return min(SEEDS, max(self.seeds, self.epochs * self.seeds // max(epochs, 1)))

    def to_json(self) -> dict[str, Any]:
        """Plain values, for a file."""
        return asdict(self)

    @classmethod
    def from_json(cls, plain: Mapping[str, Any]) -> "Plan":
        """The inverse of `to_json`; a `ValueError` where it is no plan."""
        values = _PlanFile.model_validate(plain).model_dump()
        return cls(**{**values, "networks": tuple(values["networks"]), "notes": tuple(values["notes"])})


@dataclass(frozen=True)
class Costs:
    """What trainings cost.

    Args:
        rates: seconds for a row of an epoch, by network.
        rows: to learn from.
        fold_rows: training and held-out rows of each fold.
        first_repeat: folds of the first division of the table.
    """

    rates: Mapping[str, float]
    rows: int
    fold_rows: Sequence[tuple[int, int]]
    first_repeat: int

    def folds(self, extent: str) -> int:
        """How many folds are `repeats`, `all` of the first division, or `some` of them."""
        return {"repeats": len(self.fold_rows), "all": self.first_repeat, "some": min(_SOME, self.first_repeat)}[extent]

    def seconds(self, networks: Sequence[str], folds: int, epochs: int, seeds: int) -> float:
        """Of all trainings one after another."""
        looks = sum(train + _EVALUATION * held_out for train, held_out in self.fold_rows[:folds])
        return sum(self.rates[name] for name in networks) * epochs * (looks + seeds * self.rows)


def affordable_folds(seconds_each: float, seconds: float, first_repeat: int, folds: int) -> int:
    """How many folds of trees fit into `seconds` beside a training on all rows: whole divisions, or at least two.

    A whole division of the table is made in any case where it takes a minute or less.
    """
    affordable = int(seconds / max(seconds_each, 1e-3)) - 1
    if affordable >= folds:
        return folds
    least = first_repeat if first_repeat * seconds_each <= _CHEAP else min(_FEWEST_FOLDS, first_repeat)
    return min(first_repeat, max(affordable, least))


def make_plan(costs: Costs, epochs: int, seconds: float, fixed_epochs: bool = False) -> Plan:
    """The most that fits into `seconds` of computing: all networks if possible, then without the slowest.

    Args:
        costs: of trainings.
        epochs: that are wanted.
        seconds: that are left, times the processes at work.
        fixed_epochs: whether the user asked for these epochs, which then stay.
    """
    left_out: dict[str, str] = {}
    networks = tuple(sorted(costs.rates, key=costs.rates.__getitem__))
    while networks:
        offers = [
            (1.0 if fixed_epochs else share, costs.folds(extent), seeds)
            for share, extent, seeds in (_OFFERS if len(networks) > 1 else _LAST_OFFERS)
        ]
        for share, folds, seeds in offers:
            planned = max(min(epochs, _FEWEST_EPOCHS), round(share * epochs))
            needed = costs.seconds(networks, folds, planned, seeds)
            if needed <= seconds:
                notes = _notes(planned, epochs, folds, costs.first_repeat)
                return Plan(networks, folds, planned, seeds, notes, left_out)
        left = f"{_duration(max(seconds, 0))} were left"
        left_out[networks[-1]] = f"{_duration(needed)} of processor time would be needed with it, and {left}"
        networks = networks[:-1]
    return Plan((), len(costs.fold_rows), 0, 0, (), left_out)


def _notes(planned: int, epochs: int, folds: int, all_folds: int) -> tuple[str, ...]:
    """What was given up for want of time."""
    notes = []
    if planned < epochs:
        notes.append(f"networks were trained for up to {planned} epochs instead of {epochs}")
    if folds < all_folds:
        notes.append(f"contenders were judged on {folds} of {all_folds} folds")
    return tuple(notes)


def seeds_note(plan: Plan, epochs: Sequence[int]) -> tuple[str, ...]:
    """A note where networks that were trained for these epochs have fewer seeds than wanted."""
    seeds = min(map(plan.seeds_for, epochs), default=SEEDS)
    return () if seeds == SEEDS else (f"a network has {counted(seeds, 'seed')} in the model instead of {SEEDS}",)


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.0f} min"
