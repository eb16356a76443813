"""Do contributions find the atoms that decide? Labels of which the answer is known, on the molecules of a table.

Networks and trees are taught whether a molecule has a halogen or a nitro group, or how many hydroxyls it has. On
held-out molecules the contributions of all atoms are ranked against the atoms of the group: ROC-AUC, mean over
molecules.

    python benchmarks/contributions.py examples/bbbp.csv
"""

import argparse
import csv
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from sklearn.metrics import roc_auc_score

from outland.chem.featurizer import parse, rdkit
from outland.estimators import GraphClassifier, GraphRegressor
from outland.estimators.inputs import read_inputs
from outland.models.calibration import Calibration
from outland.models.contributions import contributions
from outland.models.trees import fit_boosting, fit_forest

GROUPS = {"nitro": "[N+](=O)[O-]", "halogen": "[F,Cl,Br,I;X1]", "hydroxyls": "[OX2H]"}
TRAIN, TEST, MOST_ATOMS = 1500, 150, 60


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("table", type=Path)
    arguments.add_argument("--smiles", default="smiles")
    arguments.add_argument("--epochs", type=int, default=10)
    given = arguments.parse_args()
    with given.table.open() as stream:
        molecules = [(row[given.smiles], parse(row[given.smiles])) for row in csv.DictReader(stream)]
    readable = [(text, molecule) for text, molecule in molecules if molecule and molecule.GetNumAtoms() < MOST_ATOMS]
    order = np.random.default_rng(0).permutation(len(readable))
    for name in GROUPS:
        measure(name, [readable[number] for number in order], given.epochs)


def measure(name: str, molecules: list, epochs: int) -> None:
    """Print the scores of one label."""
    pattern = rdkit().MolFromSmarts(GROUPS[name])
    atoms = [{atom for match in molecule.GetSubstructMatches(pattern) for atom in match} for _, molecule in molecules]
    counts = [len(molecule.GetSubstructMatches(pattern)) for _, molecule in molecules]
    labels = counts if name == "hydroxyls" else [int(count > 0) for count in counts]
    kind = GraphRegressor if name == "hydroxyls" else GraphClassifier
    texts = [text for text, _ in molecules]
    model = kind("erm", epochs=epochs).fit(texts[:TRAIN], labels[:TRAIN]).model_
    y = torch.tensor(labels[:TRAIN]).float()[:, None]
    y = (y - y.new_tensor(model.task.mean)) / y.new_tensor(model.task.std) if model.task.std else y
    train = replace(read_inputs(texts[:TRAIN]).graphs, y=y)
    members = {
        "network": model.members,
        "forest": (fit_forest(train, model.task, 0),),
        "boosting": (fit_boosting(train, model.task, 0),),
    }
    members["mean of the three"] = tuple(member for group in members.values() for member in group)
    test = [number for number in range(TRAIN, len(molecules)) if counts[number]][:TEST]
    graphs = read_inputs([texts[number] for number in test]).graphs
    for title, group in members.items():
        started = time.process_time()
        one = replace(model, members=group, weights=(), calibration=Calibration.identity(model.task))
        result = contributions(one, graphs, [molecules[number][1] for number in test])
        scores = []
        for number, values in zip(test, result.by_graph(graphs), strict=True):
            decides = np.isin(np.arange(len(values)), list(atoms[number]))
            if not decides.all():
                scores.append(roc_auc_score(decides, values))
        faithfulness = result.faithfulness
        assert faithfulness is not None
        print(
            f"{name}, {title}: ROC-AUC {np.mean(scores):.3f} over {len(scores)} molecules; faithfulness "
            f"{faithfulness.score:.2f} ({faithfulness.low:.2f} to {faithfulness.high:.2f}); "
            f"{time.process_time() - started:.1f} s of CPU",
            flush=True,
        )


if __name__ == "__main__":
    main()
