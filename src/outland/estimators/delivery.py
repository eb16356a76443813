"""The delivered model: its contenders trained on all rows, and judged by what the folds held out."""

from collections.abc import Sequence
from dataclasses import replace

import torch

from outland.devices import find_device
from outland.errors import OutlandError
from outland.estimators.budget import Plan
from outland.estimators.contenders import VECTOR_MODELS, build_member
from outland.estimators.jobs import Job
from outland.estimators.judgement import Judgement
from outland.estimators.out_of_fold import HeldOut, OutOfFold
from outland.estimators.runner import Runner
from outland.estimators.trust import held_out_predictions, with_trust
from outland.graphs import PackedGraphs
from outland.models import Assessment, TrainedModel, TrainingSummary, evaluate_models
from outland.models.calibration import calibrate
from outland.models.comparison import Comparison
from outland.models.knn import REFERENCES, KNNDistance
from outland.models.members import Member, Network
from outland.models.model import Predictions
from outland.models.summary import ShiftSummary
from outland.models.uncertainty import flags
from outland.shift.two_sample import two_sample
from outland.spec import RunSpec
from outland.training.outcome import (
    class_names,
    describe_data,
    method_source,
    reference_graphs,
    training_elements,
    training_hashes,
)
from outland.training.record import describe_platform
from outland.training.targets import prepare_targets, standardize


def deliver(
    runner: Runner,
    plan: Plan,
    contenders: Sequence[OutOfFold],
    held_out: HeldOut,
    judgement: Judgement,
    comparison: Comparison,
) -> TrainedModel:
    """Train what was judged best on all rows, for as many epochs as the folds chose, and calibrate it by the folds."""
    workshop, rows = runner.workshop, runner.workshop.rows
    jobs = _final_jobs(plan, contenders, judgement)
    members = _trained_members(runner, [*jobs])
    spec = next((member.spec for member in members if isinstance(member, Network)), workshop.spec)
    order = torch.randperm(len(rows["train"]), generator=torch.Generator().manual_seed(spec.seed))
    drawn = rows["train"][order]
    predictions = held_out_predictions(contenders, judgement, held_out, rows, spec)
    model = TrainedModel(
        members=tuple(members),
        schema=next((each.method.schema for each in members if isinstance(each, Network)), standardize(rows).schema),
        spec=spec,
        classes=class_names(rows),
        calibration=calibrate(predictions.outputs, held_out.y, held_out.task),
        training=_training(runner, spec, comparison),
        weights=tuple(jobs.values()),
        distance=_distance(members, rows.graphs.select(drawn[: 2 * REFERENCES]), spec.seed),
        reference=reference_graphs(rows, drawn),
        training_hashes=training_hashes(rows),
        training_elements=training_elements(rows),
        source=method_source(spec),
    ).to(find_device(workshop.device))
    model = with_trust(model, predictions, judgement, held_out, rows)
    honest = replace(predictions, outputs=judgement.outputs[judgement.delivered].float())
    return replace(model, assessment=_assess(model, honest, judgement, held_out, runner, comparison))


def _final_jobs(plan: Plan, contenders: Sequence[OutOfFold], judgement: Judgement) -> dict[Job, float]:
    """The trainings on all rows, with the weight of each: a network's is shared by its seeds."""
    jobs: dict[Job, float] = {}
    epochs = {each.name: each.epochs for each in contenders}
    for name, weight in judgement.weights.items():
        if name in VECTOR_MODELS:
            jobs[Job(name)] = weight
            continue
        seeds = plan.seeds_for(epochs[name])
        for seed in range(seeds):
            jobs[Job(name, None, plan.epochs, epochs[name], seed)] = weight / seeds
    return jobs


def _trained_members(runner: Runner, jobs: Sequence[Job]) -> list[Member]:
    """The members that jobs train on all rows."""
    runner.execute(jobs, "Training on all rows")
    for job in jobs:
        if job.contender in runner.failures:
            problem = runner.failures[job.contender]
            raise OutlandError(f"{job.contender} could not be trained on all rows: {problem}")
    workshop = runner.workshop
    specs = [workshop.spec if job.contender in VECTOR_MODELS else workshop.network_spec(job) for job in jobs]
    triples = zip(jobs, runner.results(jobs), specs, strict=True)
    try:
        return [build_member(job.contender, result, workshop.rows, spec) for job, result, spec in triples]
    except (LookupError, RuntimeError, TypeError, ValueError) as problem:
        reason = " ".join(str(problem).split()[:40])
        raise OutlandError(f"a result in {workshop.folder} is not of this fit ({reason}): remove the folder") from None


def _training(runner: Runner, spec: RunSpec, comparison: Comparison) -> TrainingSummary:
    rows, device = runner.workshop.rows, find_device(runner.workshop.device)
    prepared = prepare_targets(rows, spec)
    epochs = max([score.epochs or 0 for score in comparison.contenders if score.weight], default=0)
    return TrainingSummary(
        epochs=epochs,
        best_epoch=max(epochs - 1, 0),
        seconds=runner.elapsed,
        graphs={name: len(index) for name, index in rows.parts.items()},
        class_counts=prepared.class_counts,
        class_draws=prepared.class_draws if epochs else prepared.class_counts,
        data=describe_data(rows),
        platform=describe_platform(device),
    )


def _distance(members: Sequence[Member], graphs: PackedGraphs, seed: int) -> KNNDistance | None:
    """Distances to the training embeddings of the first network, where it has any."""
    network = next((member for member in members if isinstance(member, Network)), None)
    embeddings = None if network is None else network.outputs_and_embeddings(graphs)[1]
    return None if embeddings is None else KNNDistance.fit(embeddings, seed)


def _assess(
    model: TrainedModel,
    predictions: Predictions,
    judgement: Judgement,
    held_out: HeldOut,
    runner: Runner,
    comparison: Comparison,
) -> Assessment:
    """Scores by held-out predictions; where the user has named test rows, those of the model on them."""
    rows, seed = runner.workshop.rows, runner.workshop.spec.seed
    if "test" in rows:
        return Assessment(scores=evaluate_models([model], rows.part("test"), "test", seed), comparison=comparison)
    scores = evaluate_models([model], held_out.graphs(rows), "test", seed, [predictions])
    names = flags(replace(model, weights=tuple(judgement.weights.values())), predictions)
    share_far = None if names is None else names.count("far") / len(names)
    shift = _shift(held_out, rows.graphs, seed)
    shown = comparison if any(score.is_measured for score in scores) else comparison.without_scores()
    return Assessment(scores=scores, comparison=shown, share_far=share_far, shift=shift)


def _shift(held_out: HeldOut, graphs: PackedGraphs, seed: int) -> ShiftSummary | None:
    """A two-sample test of the first fold's training and held-out rows; None where they are too few."""
    descriptors, fold = graphs.extra["descriptors"], held_out.folds[0]
    try:
        result = two_sample(descriptors[fold.train], descriptors[fold.held_out], seed)
    except OutlandError:
        return None
    return ShiftSummary(auc=result.auc, null=result.null[1])
