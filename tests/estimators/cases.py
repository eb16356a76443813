"""Molecules and small models that the tests of estimators share."""

import csv
from functools import cache

from outland.chem.featurizer import parse
from tests.conftest import SAMPLES

SMALL = {"width": 16, "layers": 3}


@cache
def bbbp() -> tuple[list[str], list[int]]:
    """The readable rows of the sample: 298 molecules."""
    with (SAMPLES / "bbbp.csv").open() as stream:
        rows = [(row["smiles"], int(row["p_np"])) for row in csv.DictReader(stream)]
    kept = [row for row in rows if parse(row[0]) is not None]
    return [smiles for smiles, _ in kept], [label for _, label in kept]
