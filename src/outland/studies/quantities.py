"""The numbers that a study reads from a run."""

from collections.abc import Callable
from dataclasses import dataclass

from outland.training import RunRecord


@dataclass(frozen=True)
class Quantity:
    """A number that is read from the record of a run, or measured (see `Study.measure`)."""

    name: str  # in files
    title: str  # in tables
    read: Callable[[RunRecord], float | None] | None = None  # None where it is measured
    scale: float = 1.0  # by which it is multiplied to be shown
    digits: int = 2  # after the decimal point
    sign: int = 1  # 1 where more is better, -1 where less is, 0 where neither
    relative: bool = False  # to the reference row's of the same seed, in per cent more
    exact: bool = False  # the same for all seeds, so that it has no spread
    tested: bool = True  # whether differences between rows are tested
    by_device: bool = False  # comparable on one device only: that of most runs counts


def _test(record: RunRecord) -> float | None:
    return None if record.selection[record.selected].get("test") is None else record.test_score


def _id_test(record: RunRecord) -> float | None:
    return record.selection[record.selected].get("id_test")


def _last(record: RunRecord) -> float | None:
    return record.selection.get("last_epoch", {}).get("test")


def _mask(name: str) -> Callable[[RunRecord], float | None]:
    return lambda record: record.masks.get("test", {}).get(name)


TEST = Quantity("test", "test score, %", _test, scale=100)
ID_TEST = Quantity("id_test", "id test score, %", _id_test, scale=100)
LAST = Quantity("last_epoch", "test score of the last epoch, %", _last, scale=100)
SECONDS = Quantity(
    name="seconds",
    title="seconds a run",
    read=lambda record: float(record.timing["seconds"]),
    digits=1,
    sign=-1,
    tested=False,  # they depend on what else the device has to do
    by_device=True,
)
PARAMETERS = Quantity(
    name="parameters",
    title="parameters, millions",
    read=lambda record: record.parameters["total"] / 1e6,
    digits=3,
    sign=-1,
    exact=True,
    tested=False,
)
IMPROVEMENT = Quantity("improvement", "improvement over ERM, %", _test, relative=True)
MASK_ROCAUC = Quantity("rocauc", "mask ROC-AUC", _mask("rocauc"), digits=3)
MASK_PRECISION = Quantity("precision_at_k", "mask precision@k", _mask("precision_at_k"), digits=3)
