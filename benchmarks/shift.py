"""How far training and test are apart on real data, and what that number depends on: writes results/shift.json.

    python benchmarks/shift.py results/shift.json

About half an hour on one core. Raw files and cache as for every command: OUTLAND_DATA, OUTLAND_CACHE. Stages that the
file already holds are not measured again.
"""

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any

import torch

from outland.nn import BackboneSettings
from outland.shift import ShiftSettings, compare, fresh_draws, measure_shift, radius_study, train_moments
from outland.shift.domain_classifier import domain_features
from outland.shift.integral import Vectors
from outland.shift.pair import make_pair
from outland.shift.sources import find_sides
from outland.shift.trials import align_features, draw_trial
from outland.storage.files import write_text
from outland.training import RunSpec, prepare

PAPER = {"motif/base": 0.557, "motif/size": 0.522, "cmnist/color": 0.490, "molbbbp/scaffold": 0.419}
PLAIN = ShiftSettings()
MEAN = BackboneSettings(width=32, layers=3, dropout=0.0, pool="mean", head="linear")
VARIANTS = {
    "as it is": PLAIN,
    "2 features": replace(PLAIN, features=2),
    "200 graphs a side": replace(PLAIN, most=200),
    "100 steps": replace(PLAIN, steps=100),
    "1000 steps": replace(PLAIN, steps=1000),
    "mean over nodes": replace(PLAIN, backbone=MEAN),
    "reweighted": replace(PLAIN, balance="reweight"),
    "points from the union": replace(PLAIN, proposal="union"),
}
LAB = ["data.limit=2000", "backbone.width=64", "train.batch_size=64", "train.epochs=60"]


def sides(name: str) -> Any:
    return find_sides(f"{name}:train", f"{name}:test")


def measured(name: str, settings: ShiftSettings) -> dict[str, Any]:
    both = sides(name)
    return measure_shift(both.first, both.second, schema=both.schema, settings=settings).to_json()


def dependence(name: str, variant: str) -> dict[str, Any]:
    """Two trials of a variant."""
    result = measured(name, replace(VARIANTS[variant], trials=2))
    keys = ("covariate", "null", "accuracy", "accuracy_null", "epsilon", "by_epsilon", "seconds")
    return {key: result[key] for key in keys}


def seen(name: str) -> list[dict[str, float]]:
    """What the measure would say of features of the very graphs that the domain classifier was trained on."""
    both = sides(name)
    pair = make_pair(both.first, both.second, both.schema)
    comparisons: dict[str, list[Any]] = {"real": [], "null": []}
    for number in range(2):
        trial = draw_trial(pair, PLAIN, number)
        for word, side in (("real", trial.side), ("null", trial.random_side)):
            held_out = trial.fold == 0
            graphs = trial.with_sides(side)
            z, _ = domain_features(graphs, pair.schema, pair.class_count, held_out, PLAIN, number)
            rows = (z[~held_out & (side == label)] for label in (0, 1))
            comparisons[word].append(compare(*map(Vectors, rows)))
    return [
        {
            "epsilon": epsilon,
            **{word: fmean(each.covariate(epsilon) for each in many) for word, many in comparisons.items()},
        }
        for epsilon in (1e-12, 1e-9, 1e-6)
    ]


def pooling(name: str) -> dict[str, float]:
    """GCS at 1e-12 from held-out features of five networks: as they are, aligned, and the mean over single folds."""
    both = sides(name)
    pair = make_pair(both.first, both.second, both.schema)
    trial = draw_trial(pair, PLAIN, 0)
    graphs, folds = trial.with_sides(trial.side), range(PLAIN.folds)
    features = [
        domain_features(graphs, pair.schema, pair.class_count, trial.fold == fold, PLAIN, 0)[0] for fold in folds
    ]
    raw = torch.stack(features)[trial.fold, torch.arange(len(trial.fold))]

    def gcs(z: torch.Tensor, rows: torch.Tensor) -> float:
        vectors = (Vectors(z[rows & (trial.side == label)]) for label in (0, 1))
        return compare(*vectors).covariate(1e-12)

    everyone = torch.ones_like(trial.fold, dtype=torch.bool)
    return {
        "as they are": gcs(raw, everyone),
        "aligned": gcs(align_features(features, trial.fold), everyone),
        "single folds": fmean(gcs(raw, trial.fold == fold) for fold in folds),
    }


def radii() -> dict[str, Any]:
    """Proposition 4.1."""
    return {name: radius_study(name) for name in ("normal", "ball")}


def diversity() -> list[dict[str, Any]]:
    """DropEdge by fresh draws, AIA over training, on 1,000 training graphs of a small cut of Motif-base."""
    rows = []
    for words in (["method.drop=0.2"], ["method.drop=0.5"]):
        spec = RunSpec.from_words("motif", "dropedge", [*LAB, *words], domain="base")
        moments = fresh_draws(*prepare(spec, torch.device("cpu")), moments=50)
        rows.append({"run": f"dropedge {words[0]}", **moments.diversity("edge").to_json()})
    for method in ("aia:released", "aia:paper"):
        moments = train_moments(RunSpec.from_words("motif", method, LAB, domain="base"), skip=10)
        for over in ("edge", "node"):
            rows.append({"run": method, **moments.diversity(over).to_json()})
    return rows


def main() -> None:
    torch.set_num_threads(1)
    path = Path(sys.argv[1])
    results: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    head = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=True)
    stages: dict[str, Callable[[], Any]] = {"proposition_4_1": radii}
    for name in PAPER:
        stages[name] = lambda name=name: {"paper": PAPER[name], **measured(name, PLAIN)}
    stages["diversity"] = diversity
    stages["motif/base, pooling of folds"] = lambda: pooling("motif/base")
    for name in ("molbbbp/scaffold", "motif/base"):
        for variant in VARIANTS:
            stages[f"{name}, {variant}"] = lambda name=name, variant=variant: dependence(name, variant)
        stages[f"{name}, features of graphs that were trained on"] = lambda name=name: seen(name)
    for name, stage in stages.items():
        if name not in results:
            results[name] = {"commit": head.stdout.strip(), "found": stage()}
            write_text(path, json.dumps(results, indent=1) + "\n")
            print(name, flush=True)


if __name__ == "__main__":
    main()
