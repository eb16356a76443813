"""A table into a model: contenders are judged on scaffolds held out of their training, and the best trained on all."""

import json
import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from multiprocessing import current_process
from pathlib import Path
from typing import Any, Literal

from outland.chem.featurizer import VECTOR
from outland.devices import one_blas_thread, one_thread
from outland.errors import OutlandError
from outland.estimators.budget import Costs, Plan, affordable_folds, make_plan, seeds_note
from outland.estimators.contenders import NETWORKS, VECTOR_MODELS
from outland.estimators.delivery import deliver
from outland.estimators.jobs import Job, Workshop
from outland.estimators.judgement import compare, judge
from outland.estimators.out_of_fold import HeldOut, OutOfFold, out_of_fold
from outland.estimators.runner import Runner
from outland.graphs import Cache
from outland.methods import is_file
from outland.models import TrainedModel
from outland.recipes import Recipe
from outland.spec import RunSpec
from outland.storage.files import canonical_json, digest, read_json, refuse_symlink, writable_folder, write_text
from outland.storage.locks import locked
from outland.storage.tensors import check_mapped
from outland.tables.folds import FOLDS
from outland.training.targets import prepare_targets, standardize
from outland.workers import available_cores

AUTO = "auto"
_MINUTES = 5.0
_QUICK_ROWS, _QUICK_SECONDS = 200, 20.0  # a table of so many rows takes about so long
_PLANNED = 0.85  # share of the time that is planned; the rest is for what nobody foresees
_STARTING = 4.0  # seconds until worker processes are there
_OVERDUE = 1.0  # share of the time after which no fold of a network is begun, where other contenders do without it
_QUICK = 0.4  # share of the time that models of vectors may take


@dataclass(frozen=True)
class FitResult:
    """A fitted model with its assessment, and how long it took in all."""

    model: TrainedModel
    seconds: float


def fit(
    spec: RunSpec,
    runs: Path | str,
    *,
    method: str = AUTO,
    minutes: float | None = None,
    folds: int = FOLDS,
    recipe: Recipe | Literal["auto"] | None = "auto",
    device: str = "cpu",
    workers: int | None = None,
    cache: Cache | None = None,
) -> FitResult:
    """Judge contenders on held-out scaffolds, train what is delivered on all rows, calibrate it by the held-out rows.

    Each training that is finished stays in `runs`, and so does the plan: the same call goes on after a crash.

    Args:
        spec: of the table, with the settings of networks; its method is the contender, unless `method` says otherwise.
        runs: folder of runs.
        method: `auto` for all contenders; `forest`, `boosting` or `gp` for one alone; anything else for the spec's own.
        minutes: to take, about; by default 5, less for tables of under 1,000 rows.
        folds: how many.
        recipe: of other networks' settings, as in `RunSpec.make`.
        device: of networks.
        workers: processes; by default one a core, up to the number of folds, and one where networks are on a GPU.
        cache: of prepared tables.
    """
    started = time.perf_counter()
    networks = network_specs(spec, method, recipe)
    names = [*(VECTOR_MODELS if method == AUTO else [method] if method in VECTOR_MODELS else []), *networks]
    cache_folder = None if cache is None else cache.folder
    workshop = Workshop(spec, networks, _folder(runs, spec, networks, folds), folds, device, cache_folder)
    with _claimed(workshop.folder), one_thread(), one_blas_thread():
        seconds = 60 * minutes if minutes is not None else default_seconds(len(workshop.rows["train"]))
        if workers is None:
            workers = min(available_cores(), folds) if device == "cpu" else 1
        if current_process().daemon:
            workers = 1  # such a process may not have children
        with Runner(workshop, workers, started, seconds).started() as runner:
            plan = _kept_plan(runner, names, seconds)
            contenders, held_out = _out_of_fold(runner, names, plan)
            judgement = judge(contenders, held_out)
            comparison = compare(contenders, judgement, held_out, held_out.graphs(workshop.rows), spec.seed)
            delivered = [
                each.epochs for each in contenders if each.name in judgement.weights and each.name not in VECTOR_MODELS
            ]
            notes = [*plan.notes, *seeds_note(plan, delivered)]
            given_up = {"left_out": dict(plan.left_out), "failed": dict(runner.failures), "notes": notes}
            comparison = comparison.model_copy(update=given_up)
            model = deliver(runner, plan, contenders, held_out, judgement, comparison)
            check_mapped()  # nothing is delivered if the data have been changed on disk meanwhile
    return FitResult(model, time.perf_counter() - started)


def default_seconds(rows: int) -> float:
    """The time of a fit that nobody limited: 20 seconds for 200 rows, up to 5 minutes from 1,000 on."""
    return float(min(60 * _MINUTES, _QUICK_SECONDS * max(1.0, rows / _QUICK_ROWS) ** 1.68))


def network_specs(
    spec: RunSpec, method: str = AUTO, recipe: Recipe | Literal["auto"] | None = "auto"
) -> dict[str, RunSpec]:
    """The specs of the networks among the contenders, by name."""
    if method == AUTO:
        return {name: method_spec(spec, name, recipe) for name in NETWORKS}
    if method in VECTOR_MODELS:
        return {}
    return {spec.method.rpartition(":")[2] if is_file(spec.method) else spec.method: spec}


def method_spec(spec: RunSpec, method: str, recipe: Recipe | Literal["auto"] | None = "auto") -> RunSpec:
    """The spec with another method and the recipe's settings for it, on the same data, network and training loop."""
    if spec.method == method:
        return spec
    which: dict[str, Any] = {"domain": spec.domain, "kind": spec.kind, "table": spec.table, "recipe": recipe}
    other = RunSpec.make(spec.dataset, method, data_checksum=spec.data_checksum, **which)
    return replace(spec, method=other.method, method_params=other.method_params, preset="", code="")


def _folder(runs: Path | str, spec: RunSpec, networks: Mapping[str, RunSpec], folds: int) -> Path:
    """The folder of a fit's jobs: another one where anything but the minutes differs."""
    keys = {name: each.key for name, each in networks.items()}
    plain = {"spec": spec.key, "folds": folds, "networks": keys, "vector": VECTOR}
    return Path(runs) / f"{spec.dataset}-{spec.domain}-fit-seed{spec.seed}-{digest(canonical_json(plain))[:12]}"


@contextmanager
def _claimed(folder: Path) -> Iterator[None]:
    """Hold the folder, so that no second process works in it."""
    refuse_symlink(folder)
    writable_folder(folder)
    with locked(folder / ".lock", timeout=0, busy=f"another process is working in {folder}"):
        yield


def _kept_plan(runner: Runner, names: Sequence[str], seconds: float) -> Plan:
    """The plan for these contenders and this time, which is made once: a fit that goes on keeps to it."""
    name = digest(canonical_json({"names": list(names), "seconds": round(seconds)}))[:12]
    path = runner.workshop.folder / f"plan-{name}.json"
    if os.path.lexists(path):
        with suppress(OSError, ValueError):  # what is no plan is made anew
            kept = Plan.from_json(read_json(path))
            if {*kept.networks} <= {*names} and kept.folds <= len(runner.workshop.folds):
                return kept
    plan = _plan(runner, names)
    if not plan.networks and not {*names} & {*VECTOR_MODELS}:
        return plan  # nothing is trained: it is not kept, so that a repeated fit says why again
    write_text(path, json.dumps(plan.to_json(), indent=1) + "\n")
    return plan


def _plan(runner: Runner, names: Sequence[str]) -> Plan:
    """What there is time for, by the time of one fold of each model of vectors and of a few steps of each network."""
    workshop = runner.workshop
    quick = [name for name in names if name in VECTOR_MODELS]
    networks = [name for name in names if name not in VECTOR_MODELS]
    probes = {name: Job(name) for name in networks}
    first = {name: Job(name, fold=0) for name in quick}
    runner.execute([*probes.values(), *first.values()], "Measuring times")
    folds = workshop.folds
    first_repeat = sum(fold.repeat == 0 for fold in folds)
    seconds = _seconds(runner, first.values())
    spent = seconds + _seconds(runner, probes.values())
    computing = runner.workers * (_PLANNED * runner.seconds - _STARTING) - spent
    limit = affordable_folds(seconds, _QUICK * computing, first_repeat, len(folds)) if quick else len(folds)
    rates = {name: workshop.seconds_per_row(job) for name, job in probes.items() if name not in runner.failures}
    if not rates:
        return Plan((), limit, 0, 0)
    sizes = [(len(fold.train), len(fold.held_out)) for fold in folds[:limit]]
    costs = Costs(rates, len(workshop.rows["train"]), sizes, min(first_repeat, limit))
    wanted, is_fixed = _wanted_epochs(workshop, networks[0])
    return make_plan(costs, wanted, computing - limit * seconds, is_fixed)


def _seconds(runner: Runner, jobs: Iterable[Job]) -> float:
    """Of computing, of jobs that did not fail."""
    done = runner.results([job for job in jobs if job.contender not in runner.failures])
    return float(sum(result.values["seconds"] for result in done))


def _wanted_epochs(workshop: Workshop, network: str) -> tuple[int, bool]:
    """The epochs that the settings ask for, and whether the user has fixed them."""
    spec = workshop.networks[network]
    drawn = len(prepare_targets(workshop.rows, spec).splits["train"])
    return spec.train.with_epochs_for(drawn).epochs, spec.train.total_samples is None


def _out_of_fold(runner: Runner, names: Sequence[str], plan: Plan) -> tuple[list[OutOfFold], HeldOut]:
    """Out-of-fold outputs of all contenders that the plan has, on the same folds."""
    names = [name for name in names if name in VECTOR_MODELS or name in plan.networks]
    jobs = {
        name: [Job(name, fold, 0 if name in VECTOR_MODELS else plan.epochs) for fold in range(plan.folds)]
        for name in names
    }
    quick = [job for name in names if name in VECTOR_MODELS for job in jobs[name]]
    runner.execute(quick, "Judging trees and kernels")
    until = _OVERDUE * runner.workers * runner.seconds if quick else None
    for job in runner.execute([job for name in plan.networks for job in jobs[name]], "Judging networks", until):
        runner.failures.setdefault(job.contender, "its folds took longer than was planned: give it more --minutes")
    judged = [name for name in names if name not in runner.failures]
    if not judged:
        reasons = [*runner.failures.values(), *(f"{why}: give it more --minutes" for why in plan.left_out.values())]
        raise OutlandError(f"no contender could be trained: {reasons[0]}")
    held_out = HeldOut.of(standardize(runner.workshop.rows), runner.workshop.folds[: plan.folds])
    return [out_of_fold(name, runner.results(jobs[name]), held_out) for name in judged], held_out
