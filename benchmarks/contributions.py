"""Whether contributions find the atoms that decide, and how faithful they are to models on unseen scaffolds.

    python benchmarks/contributions.py --data DATA

DATA is a folder with MoleculeNet's files. Two questions, of a network (ERM), a forest, boosting and their mean:

- `known`: labels of which the answer is known, on the molecules of BBBP: whether there is a halogen or a nitro group,
  or how many hydroxyls. On molecules that were not trained on, the contributions of all atoms are ranked against the
  atoms of the group: ROC-AUC, mean over molecules, and over those with one group alone: without one of several there
  still is a halogen.
- `tables`: BBBP, Tox21 (two targets), ESOL and FreeSolv, a fifth of the rows held out as whole scaffolds: the
  faithfulness of contributions on 80 of them.

What is in the JSON already is not computed again; docs/estimators.md shows its tables.
"""

import argparse
import csv
import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import GroupShuffleSplit

from outland.chem.featurizer import parse, rdkit
from outland.estimators import GraphClassifier, GraphRegressor, scaffold_groups
from outland.estimators.inputs import read_inputs
from outland.models import TrainedModel
from outland.models.calibration import Calibration
from outland.models.contributions import contributions
from outland.models.trees import fit_boosting, fit_forest

OUT = Path(__file__).parent / "contributions.json"
GROUPS = {"nitro": "[N+](=O)[O-]", "halogen": "[F,Cl,Br,I;X1]", "hydroxyls": "[OX2H]"}
TASKS = {
    "BBBP": ("BBBP.csv", "p_np", True),
    "Tox21, NR-AhR": ("tox21.csv", "NR-AhR", True),
    "Tox21, SR-ARE": ("tox21.csv", "SR-ARE", True),
    "ESOL": ("delaney-processed.csv", "measured log solubility in mols per litre", False),
    "FreeSolv": ("SAMPL.csv", "expt", False),
}
MEMBERS = ("network", "forest", "gradient boosting", "their mean")
TRAIN, TEST, JUDGED, MOST_ATOMS = 1000, 100, 80, 50
Row = tuple[str, Any]


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--data", type=Path, required=True)
    arguments.add_argument("--epochs", type=int, default=8)
    arguments.add_argument("--out", type=Path, default=OUT)
    given = arguments.parse_args()
    results = json.loads(given.out.read_text()) if given.out.exists() else {"known": {}, "tables": {}}
    for part, names in (("known", GROUPS), ("tables", TASKS)):
        for name in names:
            if name not in results[part]:
                started = time.process_time()
                measure = measure_known if part == "known" else measure_table
                results[part][name] = measure(name, given.data, given.epochs)
                results[part][name]["cpu_seconds"] = round(time.process_time() - started, 1)
                print(name, json.dumps(results[part][name]), flush=True)
                given.out.write_text(json.dumps(results, indent=1) + "\n")


def read(file: Path, target: str | None = None) -> list[tuple[str, Any, str]]:
    """SMILES, molecule and label of rows that have both, in a seeded order."""
    with file.open(newline="") as stream:
        rows = [(row["smiles"], parse(row["smiles"]), row[target] if target else "0") for row in csv.DictReader(stream)]
    usable = [row for row in rows if row[2] and row[1] and 1 < row[1].GetNumAtoms() < MOST_ATOMS]
    return [usable[number] for number in np.random.default_rng(0).permutation(len(usable))]


def train(smiles: list[str], labels: list[float], classes: bool, epochs: int) -> tuple[TrainedModel, dict[str, tuple]]:
    """A model, and the members that stand for it one at a time."""
    kind = GraphClassifier if classes else GraphRegressor
    model = kind("erm", epochs=epochs).fit(smiles, [int(label) for label in labels] if classes else labels).model_
    y = torch.tensor(labels).float()[:, None]
    y = (y - y.new_tensor(model.task.mean)) / y.new_tensor(model.task.std) if model.task.std else y
    graphs = replace(read_inputs(smiles).graphs, y=y)
    groups = [model.members, (fit_forest(graphs, model.task, 0),), (fit_boosting(graphs, model.task, 0),)]
    groups.append(tuple(member for group in groups for member in group))
    return model, dict(zip(MEMBERS, groups, strict=True))


def measure_known(name: str, data: Path, epochs: int) -> dict[str, Any]:
    """ROC-AUC of contributions as a ranking of the atoms that decide, by member."""
    rows, pattern = read(data / "BBBP.csv"), rdkit().MolFromSmarts(GROUPS[name])
    matches = [molecule.GetSubstructMatches(pattern) for _, molecule, _ in rows]
    labels = [float(len(found) if name == "hydroxyls" else bool(found)) for found in matches]
    smiles = [text for text, _, _ in rows]
    model, members = train(smiles[:TRAIN], labels[:TRAIN], name != "hydroxyls", epochs)
    test = [number for number in range(TRAIN, len(rows)) if matches[number]]
    decides = {n: np.isin(np.arange(rows[n][1].GetNumAtoms()), sum(matches[n], ())) for n in test}
    test = [number for number in test if not decides[number].all()][:TEST]
    is_single = np.array([len(matches[number]) == 1 for number in test])
    graphs, molecules = read_inputs([smiles[n] for n in test]).graphs, [rows[n][1] for n in test]
    scores, single = {}, {}
    for title, group in members.items():
        one = replace(model, members=group, weights=(), calibration=Calibration.identity(model.task))
        values = contributions(one, graphs, molecules, judge=False).by_graph(graphs)
        ranked = np.array([roc_auc_score(decides[n], v) for n, v in zip(test, values, strict=True)])
        scores[title], single[title] = float(ranked.mean()), float(ranked[is_single].mean())
    one_group = {"molecules": int(is_single.sum()), "roc_auc": single}
    return {"molecules": len(test), "roc_auc": scores, "one_group": one_group}


def measure_table(name: str, data: Path, epochs: int) -> dict[str, Any]:
    """Faithfulness on held-out scaffolds, by member."""
    file, target, classes = TASKS[name]
    rows = read(data / file, target)[: 5 * TRAIN // 4]
    smiles, labels = [text for text, _, _ in rows], [float(label) for _, _, label in rows]
    split = GroupShuffleSplit(1, test_size=0.2, random_state=0)
    training, held_out = next(split.split(smiles, groups=scaffold_groups(smiles)))
    model, members = train([smiles[n] for n in training], [labels[n] for n in training], classes, epochs)
    test = held_out[:JUDGED]
    graphs, molecules = read_inputs([smiles[n] for n in test]).graphs, [rows[n][1] for n in test]
    result: dict[str, Any] = {"training_rows": len(training), "molecules": len(test), "faithfulness": {}}
    for title, group in members.items():
        one = replace(model, members=group, weights=(), calibration=Calibration.identity(model.task))
        measured = contributions(one, graphs, molecules).faithfulness
        assert measured is not None
        result["faithfulness"][title] = [measured.score, measured.low, measured.high]
    return result


def known_table(results: dict[str, Any]) -> str:
    """The table of docs/estimators.md on labels of which the answer is known."""
    return _ranking_table("", results["known"])


def one_group_table(results: dict[str, Any]) -> str:
    """The same over molecules that have one group alone."""
    columns = {f"{name} ({r['one_group']['molecules']})": r["one_group"] for name, r in results["known"].items()}
    return _ranking_table("one group alone ", columns)


def _ranking_table(corner: str, columns: dict[str, dict[str, Any]]) -> str:
    lines = [f"| {corner}| " + " | ".join(columns) + " |", "|---" * (1 + len(columns)) + "|"]
    for member in MEMBERS:
        lines.append(f"| {member} | " + " | ".join(f"{r['roc_auc'][member]:.3f}" for r in columns.values()) + " |")
    return "\n".join(lines)


def faithfulness_table(results: dict[str, Any]) -> str:
    """The table of docs/estimators.md on faithfulness."""
    lines = ["| | " + " | ".join(MEMBERS) + " |", "|---" * (1 + len(MEMBERS)) + "|"]
    for name, result in results["tables"].items():
        cells = [f"{s:.2f} ({low:.2f} to {high:.2f})" for s, low, high in map(result["faithfulness"].get, MEMBERS)]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
