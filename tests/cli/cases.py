"""Settings of small runs, and the guide's method."""

from pathlib import Path

from outland.storage.files import checksum
from outland.storage.raw_files import RawFile

TINY = ["--set", "data.limit=48", "--set", "backbone.width=8", "--set", "train.epochs=2", "--seed", "3"]
ROOT = Path(__file__).parents[2]
SAMPLE = RawFile("bbbp.csv", checksum(ROOT / "tests/data/bbbp.csv"))  # of Molbbbp's raw file


def guide_example() -> str:
    """The method that CONTRIBUTING.md shows, word for word."""
    guide = (ROOT / "CONTRIBUTING.md").read_text()
    return guide.partition("```python\n")[2].partition("```")[0]
