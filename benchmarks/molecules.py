"""`outland fit` beside a random forest and chemprop on unseen scaffolds of BBBP, Tox21, ESOL and FreeSolv.

    .venv/bin/python benchmarks/molecules.py --data DATA --only forest outland
    python3 -m venv /tmp/chemprop && /tmp/chemprop/bin/pip install chemprop
    .venv/bin/python benchmarks/molecules.py --data DATA --only chemprop --chemprop /tmp/chemprop/bin/chemprop
    .venv/bin/python benchmarks/molecules.py --summary

DATA is a folder with MoleculeNet's files. A cut holds out a fifth of the rows, whole scaffolds (Bemis and Murcko; a
molecule without rings is one of its own), drawn at random; all contenders get the same rows, in five cuts. `forest` is
scikit-learn's, 500 trees on Morgan bits and all RDKit 2D descriptors. `chemprop` has its defaults (50 epochs), with a
tenth of the rows to select the epoch by. `outland` is `outland fit` with its defaults. What is in the JSON already is
not computed again.
"""

import argparse
import csv
import json
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from molecules_summary import summary

CUTS = 5
COVERAGE = 0.9
OUTLAND = (sys.executable, "-m", "outland")


@dataclass(frozen=True)
class Task:
    """A target of a MoleculeNet file."""

    file: str
    target: str
    classes: bool


TASKS = {
    "bbbp": Task("BBBP.csv", "p_np", True),
    "tox21-ahr": Task("tox21.csv", "NR-AhR", True),
    "tox21-are": Task("tox21.csv", "SR-ARE", True),
    "esol": Task("delaney-processed.csv", "measured log solubility in mols per litre", False),
    "freesolv": Task("SAMPL.csv", "expt", False),
}


def read(task: Task, data: Path) -> tuple[list[str], np.ndarray, np.ndarray]:
    """SMILES that RDKit reads and that have a label, labels, and a number for the scaffold of each."""
    from rdkit import Chem, RDLogger
    from rdkit.Chem.Scaffolds.MurckoScaffold import MurckoScaffoldSmiles

    RDLogger.DisableLog("rdApp.*")
    smiles, labels, scaffolds = [], [], []
    with (data / task.file).open(newline="") as stream:
        for number, row in enumerate(csv.DictReader(stream)):
            text = row["smiles"].strip()
            molecule = Chem.MolFromSmiles(text) if text and row[task.target] else None
            if molecule is None or not molecule.GetNumAtoms():
                continue
            smiles.append(text)
            labels.append(float(row[task.target]))
            scaffolds.append(MurckoScaffoldSmiles(mol=molecule) or f"row {number}")
    return smiles, np.array(labels), np.unique(scaffolds, return_inverse=True)[1]


def held_out(groups: np.ndarray, cut: int) -> np.ndarray:
    """Which rows a cut holds out: scaffolds in random order, until they are a fifth of the rows."""
    order = np.random.default_rng(cut).permutation(groups.max() + 1)
    counts = np.bincount(groups)[order]
    chosen = order[: int(np.searchsorted(counts.cumsum(), len(groups) / 5)) + 1]
    return np.isin(groups, chosen)


def write_table(path: Path, task: Task, smiles: list[str], labels: np.ndarray | None) -> None:
    """A CSV file of SMILES, and of labels where they are given."""
    with path.open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(["smiles"] if labels is None else ["smiles", "label"])
        for index, text in enumerate(smiles):
            value = [] if labels is None else [int(labels[index]) if task.classes else labels[index]]
            writer.writerow([text, *value])


def forest(task: Task, folder: Path, train: tuple[list[str], np.ndarray], test: list[str]) -> dict[str, Any]:
    """A forest of 500 trees on Morgan bits and all 2D descriptors."""
    from rdkit import Chem
    from rdkit.Chem import Descriptors, rdFingerprintGenerator
    from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

    generator = rdFingerprintGenerator.GetMorganGenerator(radius=2, fpSize=2048)

    def vectors(texts: list[str]) -> np.ndarray:
        rows = []
        for text in texts:
            molecule = Chem.MolFromSmiles(text)
            values = np.array(list(Descriptors.CalcMolDescriptors(molecule).values()), dtype=np.float64)
            values = np.nan_to_num(values, nan=0.0, posinf=0.0, neginf=0.0).clip(-1e30, 1e30)
            rows.append(np.concatenate([generator.GetFingerprintAsNumPy(molecule), values]).astype(np.float32))
        return np.stack(rows)

    kind = RandomForestClassifier if task.classes else RandomForestRegressor
    model = kind(n_estimators=500, random_state=0, n_jobs=1).fit(vectors(train[0]), train[1])
    found = model.predict_proba(vectors(test))[:, 1] if task.classes else model.predict(vectors(test))
    return {"prediction": found}


def chemprop(
    task: Task, folder: Path, train: tuple[list[str], np.ndarray], test: list[str], program: str
) -> dict[str, Any]:
    """Chemprop 2 with its defaults, in an environment of its own."""
    write_table(folder / "train.csv", task, *train)
    write_table(folder / "test.csv", task, test, None)
    kind = "classification" if task.classes else "regression"
    options = f"-s smiles --target-columns label -t {kind} --split-sizes 0.9 0.1 0.0 --accelerator cpu --pytorch-seed 0"
    files = ["--data-path", str(folder / "train.csv"), "--output-dir", str(folder / "model")]
    _run([program, "train", *options.split(), *files], folder)
    out = folder / "found.csv"
    files = ["--test-path", str(folder / "test.csv"), "--model-paths", str(folder / "model"), "--preds-path", str(out)]
    _run([program, "predict", "-s", "smiles", "--accelerator", "cpu", *files], folder)
    with out.open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    column = next(name for name in rows[0] if name.startswith("label"))
    return {"prediction": np.array([float(row[column]) for row in rows])}


def _run(command: list[str], folder: Path) -> None:
    done = subprocess.run(command, cwd=folder, check=False, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(command)} failed:\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}")


def outland(
    task: Task, folder: Path, train: tuple[list[str], np.ndarray], test: list[str], words: list[str]
) -> dict[str, Any]:
    """`outland fit`, then `outland predict`, as a chemist would type them."""
    write_table(folder / "train.csv", task, *train)
    write_table(folder / "test.csv", task, test, None)
    command = [*OUTLAND, "fit", "train.csv", "--target", "label", "--out", "model", *words]
    _run(command, folder)
    command = [*OUTLAND, "predict", "model", "test.csv", "--out", "found.csv", "--coverage", str(COVERAGE)]
    _run(command, folder)
    with (folder / "found.csv").open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    column = "outland_probability" if task.classes else "outland_prediction"
    found: dict[str, Any] = {"prediction": np.array([float(row[column]) for row in rows])}
    found["flag"] = [row.get("outland_flag", "") for row in rows]
    if task.classes:
        found["set"] = [row["outland_set"].split("|") for row in rows]
    else:
        found["interval"] = [(float(row["outland_low"]), float(row["outland_high"])) for row in rows]
    comparison = json.loads((folder / "model" / "state.json").read_text())["values"]["assessment"]["comparison"]
    found["contenders"] = {
        each["name"]: {"score": each["score"]["value"], "loss": each["loss"], "weight": each["weight"]}
        for each in comparison["contenders"]
    }
    return found


def scores(task: Task, found: dict[str, Any], y: np.ndarray) -> dict[str, Any]:
    """What came out, in numbers."""
    from sklearn.metrics import roc_auc_score

    p = found["prediction"]
    error = np.abs(p - y) if not task.classes else (p - y) ** 2
    if not task.classes:
        result: dict[str, Any] = {"rmse": float(np.sqrt(np.mean((p - y) ** 2)))}
    else:
        bins = np.minimum((p * 10).astype(int), 9)
        gaps = [abs(p[bins == b].mean() - y[bins == b].mean()) * (bins == b).mean() for b in np.unique(bins)]
        result = {"rocauc": float(roc_auc_score(y, p)), "brier": float(error.mean()), "ece": float(sum(gaps))}
    if "set" in found:
        result["coverage"] = float(
            np.mean([str(int(label)) in each for label, each in zip(y, found["set"], strict=True)])
        )
        result["set_size"] = float(np.mean([len([c for c in each if c]) for each in found["set"]]))
    if "interval" in found:
        inside = [low <= label <= high for label, (low, high) in zip(y, found["interval"], strict=True)]
        result["coverage"] = float(np.mean(inside))
        result["width"] = float(np.mean([high - low for low, high in found["interval"]]))
    if "contenders" in found:
        result["contenders"] = found["contenders"]
    if "flag" in found:
        flags = np.array(found["flag"])
        result["error_by_flag"] = {
            flag: [int((flags == flag).sum()), float(error[flags == flag].mean())] for flag in np.unique(flags)
        }
    return result


def _computed() -> float:
    """Processor time of this process and its children so far, in seconds."""
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="folder of MoleculeNet's files")
    parser.add_argument("--only", nargs="*", default=["forest", "outland"], choices=["forest", "chemprop", "outland"])
    parser.add_argument("--tasks", nargs="*", default=list(TASKS), choices=list(TASKS))
    parser.add_argument("--cuts", nargs="*", type=int, default=list(range(CUTS)), choices=range(CUTS))
    parser.add_argument("--chemprop", default="chemprop")
    parser.add_argument("--fit-options", default="", help="of `outland fit`")
    parser.add_argument("--summary", action="store_true", help="print tables of what is in the JSON, and end")
    parser.add_argument("--json", type=Path, default=Path("benchmarks/molecules.json"))
    arguments = parser.parse_args()
    results: dict[str, Any] = json.loads(arguments.json.read_text()) if arguments.json.exists() else {}
    if arguments.summary:
        print(summary(results))
        return
    if arguments.data is None:
        parser.error("--data is needed: the folder of MoleculeNet's files")
    for cut in arguments.cuts:
        for name in arguments.tasks:
            task = TASKS[name]
            smiles, labels, groups = read(task, arguments.data)
            test = held_out(groups, cut)
            train = [text for text, out in zip(smiles, test, strict=True) if not out], labels[~test]
            new = [text for text, out in zip(smiles, test, strict=True) if out]
            for contender in arguments.only:
                place = results.setdefault(name, {}).setdefault(contender, {})
                if str(cut) in place:
                    continue
                started, computed = time.perf_counter(), _computed()
                with tempfile.TemporaryDirectory() as folder:
                    inputs: tuple[Any, ...] = (task, Path(folder), train, new)
                    match contender:
                        case "forest":
                            found = forest(*inputs)
                        case "chemprop":
                            found = chemprop(*inputs, arguments.chemprop)
                        case _:
                            found = outland(*inputs, arguments.fit_options.split())
                seconds = round(time.perf_counter() - started, 1)
                cost = {"seconds": seconds, "computing_seconds": round(_computed() - computed, 1)}
                place[str(cut)] = {**scores(task, found, labels[test]), "rows": int(test.sum()), **cost}
                print(name, contender, cut, place[str(cut)], flush=True)
                arguments.json.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
