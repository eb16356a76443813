"""A long table predicted as it streams by: rows a second and peak memory, and whether chunks change anything.

    python benchmarks/predict.py --rows 1000000

The table repeats the molecules of `--table`, in a seeded order. Memory is the largest resident set of the process that
predicts, and of the processes that read for it, as the kernel counts them.
"""

import argparse
import csv
import random
import resource
import tempfile
import time
from pathlib import Path

from outland.chem.featurizer import parse
from outland.estimators import GraphClassifier
from outland.models.table_predictions import predict_table

HERE = Path(__file__).resolve().parents[1]


def molecules(path: Path, target: str) -> tuple[list[str], list[int]]:
    with path.open() as stream:
        rows = [(row["smiles"], row[target]) for row in csv.DictReader(stream) if row[target] in ("0", "1")]
    valid = [row for row in rows if parse(row[0]) is not None]
    return [smiles for smiles, _ in valid], [int(label) for _, label in valid]


def write_table(path: Path, smiles: list[str], rows: int) -> None:
    generator = random.Random(0)
    with path.open("w") as stream:
        stream.write("id,smiles\n")
        for row in range(rows):
            stream.write(f"{row},{generator.choice(smiles)}\n")


def peak(who: int) -> float:
    return resource.getrusage(who).ru_maxrss / 1e6  # kilobytes on Linux


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--table", type=Path, default=HERE / "tests" / "data" / "bbbp.csv")
    parser.add_argument("--target", default="p_np")
    arguments = parser.parse_args()
    smiles, labels = molecules(arguments.table, arguments.target)
    fitted = GraphClassifier("aia", epochs=2).fit(smiles[:300], labels[:300])
    with tempfile.TemporaryDirectory() as folder:
        table, out = Path(folder) / "long.csv", Path(folder) / "predicted.csv"
        write_table(table, smiles, arguments.rows)
        started, before = time.perf_counter(), peak(resource.RUSAGE_SELF)
        report = predict_table(fitted.model_, table, out)
        seconds = time.perf_counter() - started
        print(f"{report.rows:,} rows in {seconds:.0f} s: {report.rows / seconds:,.0f} a second")
        here, readers = peak(resource.RUSAGE_SELF), peak(resource.RUSAGE_CHILDREN)
        print(f"peak memory {here:.2f} GB ({before:.2f} before), the largest reader {readers:.2f} GB")
        compare(fitted, out)


def compare(fitted: GraphClassifier, out: Path) -> None:
    """The written probabilities beside those of all rows in one call."""
    with out.open() as stream:
        rows = [(row["smiles"], row["outland_probability"]) for row in csv.DictReader(stream)]
    names = list(dict.fromkeys(smiles for smiles, _ in rows))
    expected = dict(zip(names, fitted.predict_proba(names)[:, 1], strict=True))
    worst = max(abs(float(text) - expected[smiles]) for smiles, text in rows)
    print(f"largest difference to predicting each molecule once, in one call: {worst:.1e} (6 digits are written)")


if __name__ == "__main__":
    main()
