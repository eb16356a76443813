"""Molecules and small models that several rooms' tests share."""

import csv
from functools import cache

from outland.chem.featurizer import parse
from tests.conftest import SAMPLES

SMALL = {"width": 16, "layers": 3}
TABLE = SAMPLES / "bbbp.csv"


@cache
def bbbp() -> tuple[list[str], list[int]]:
    """The readable rows of the sample: 298 molecules."""
    with TABLE.open() as stream:
        rows = [(row["smiles"], int(row["p_np"])) for row in csv.DictReader(stream)]
    readable = [row for row in rows if parse(row[0]) is not None]
    return [smiles for smiles, _ in readable], [label for _, label in readable]
