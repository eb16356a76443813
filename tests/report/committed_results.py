"""Results of studies from the records in `results/records/`."""

from functools import cache
from pathlib import Path

import pytest

from outland.studies import find_study
from outland.studies.record_pool import SUFFIX, pool_results, read_pool
from outland.studies.results import Results
from outland.training import RunRecord

ROOT = Path(__file__).parents[2]


@cache
def committed_results(study: str) -> Results:
    """A study's results from the committed records."""
    if not (ROOT / "results").is_dir():
        pytest.skip("results/ is not part of the package's source distribution")
    return pool_results(find_study(study).with_newer(), read_pool((ROOT / "results" / "records").glob(f"*{SUFFIX}")))


def first_ten(study: str, cell: str) -> list[RunRecord]:
    """The records of a cell's seeds 0 to 9, all of which must be there."""
    records = committed_results(study).records[cell]
    return [records[seed] for seed in range(10)]
