"""What a finished training leaves: its record and its model."""

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from outland.chem.elements import elements
from outland.chem.featurizer import are_molecules
from outland.errors import OutlandError
from outland.graphs import PackedGraphs, Splits
from outland.methods import is_file
from outland.models import TrainedModel, TrainingSummary
from outland.models.calibration import calibrate, prior_offset
from outland.models.knn import REFERENCES, KNNDistance
from outland.models.members import Network
from outland.models.model import Predictions
from outland.models.uncertainty import learn_conformal
from outland.spec import RunSpec
from outland.storage.files import checksum
from outland.training.data_parallel import describe_parallelism
from outland.training.mask_quality import mask_quality
from outland.training.record import RunRecord, describe_platform
from outland.training.selection import selections
from outland.training.targets import TrainingData
from outland.training.trainer import Trainer


def describe_data(splits: Splits) -> dict[str, Any]:
    """Where the data came from and how large it is; of rows set aside, their number; of yes and no, how many each."""
    plain = {name: value for name, value in splits.source.items() if name not in ("quarantine", "split_words")}
    if "quarantine" in splits.source:
        plain["quarantined"] = len(splits.source["quarantine"])
    if splits.schema.task.kind == "binary" and splits.schema.task.outputs == 1:
        labels = {name: splits.graphs.y[index] for name, index in splits.parts.items()}
        plain["class_counts"] = {name: [int((y == 0).sum()), int((y == 1).sum())] for name, y in labels.items()}
    return {**plain, "sizes": {name: len(index) for name, index in splits.parts.items()}}


def make_record(spec: RunSpec, trainer: Trainer, splits: Splits, device: torch.device) -> RunRecord:
    """The record of a finished training on `splits`."""
    task, burn_in = trainer.splits.schema.task, trainer.rule.burn_in
    selected: str = spec.train.select
    if burn_in and selected != "last_epoch":
        selected += "+burn_in"
    return RunRecord(
        key=spec.key,
        spec=spec.to_json(),
        metric=task.metric,
        data=describe_data(splits),
        curves=trainer.curves,
        selection=selections(trainer.curves, task, burn_in),
        selected=selected,
        masks=mask_quality(trainer.method, trainer.splits, spec.train.scoring_batch(device), trainer.callback),
        parameters=trainer.method.parameter_counts(),
        platform=describe_platform(device) | describe_parallelism(trainer.method),
        timing={
            "seconds": sum(trainer.seconds),
            "epochs": trainer.seconds,
            "finished": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        },
    )


def method_source(spec: RunSpec) -> str:
    """The source of a method in a file of its own; empty for the others."""
    if not is_file(spec.method):
        return ""
    path = Path(spec.method.rpartition(":")[0])
    if checksum(path) != spec.code:
        raise OutlandError(f"{path} has changed since the run was specified: begin again with the new one")
    try:
        return path.read_bytes().decode("utf-8")  # as bytes: its checksum is that of its own line ends
    except UnicodeDecodeError:
        raise OutlandError(f"{path} must be UTF-8, for a model keeps a copy of it") from None


def build_model(
    spec: RunSpec, trainer: Trainer, data: TrainingData, splits: Splits, device: torch.device, source: str = ""
) -> TrainedModel:
    """The selected model: calibrated and with conformal scores by the validation part, and distances to training.

    `splits` are the data without repeated graphs and with labels in their own units.
    """
    method, task = trainer.method, data.splits.schema.task
    generator = torch.Generator().manual_seed(spec.seed)
    drawn = splits["train"][torch.randperm(len(splits["train"]), generator=generator)]
    network = Network(method, spec, prior_offset(data.class_counts, data.class_draws, task))
    embeddings = network.outputs_and_embeddings(splits.graphs.select(drawn[: 2 * REFERENCES]))[1]
    validation = data.splits.graphs.select(data.splits["val"])
    validated = network.outputs(validation)
    best = trainer.rule.pick(trainer.curves, task)
    in_memory = spec.table is not None or bool(spec.data_checksum)
    model = TrainedModel(
        members=(network,),
        schema=method.schema,
        spec=spec,
        classes=class_names(splits),
        calibration=calibrate(validated, validation.y.cpu(), task, bias=in_memory),
        training=TrainingSummary(
            epochs=len(trainer.curves),
            best_epoch=len(trainer.curves) - 1 if best is None else best,
            seconds=sum(trainer.seconds),
            graphs={name: len(index) for name, index in splits.parts.items()},
            class_counts=data.class_counts,
            class_draws=data.class_draws,
            data=describe_data(splits),
            platform=describe_platform(device),
        ),
        distance=None if embeddings is None else KNNDistance.fit(embeddings, spec.seed),
        reference=reference_graphs(splits, drawn) if in_memory else None,
        training_hashes=training_hashes(splits),
        training_elements=training_elements(splits),
        source=source,
    )
    return learn_conformal(model, Predictions(validated, features=validation.extra.get("descriptors")), validation.y)


def class_names(splits: Splits) -> tuple[Any, ...]:
    """Names of the classes of a target, in order; numbers as text where they have none; empty for regression."""
    task = splits.schema.task
    if task.kind == "regression":
        return ()
    names = tuple(splits.source.get("classes", ()))
    return names or tuple(str(number) for number in range(2 if task.kind == "binary" else task.outputs))


def reference_graphs(splits: Splits, drawn: torch.Tensor) -> PackedGraphs:
    """Up to a thousand training graphs, with their vectors and without what only training needs."""
    graphs = splits.graphs.select(drawn[:REFERENCES]).to("cpu")
    vectors = {name: graphs.extra[name] for name in ("fingerprint", "descriptors", "counts") if name in graphs.extra}
    return replace(graphs, environment=None, node_truth=None, edge_truth=None, extra=vectors)


def training_elements(splits: Splits) -> torch.Tensor:
    """Elements of the training molecules; none of other graphs."""
    schema = splits.schema
    return (
        elements(splits.graphs, splits["train"]) if are_molecules(schema.node, schema.edge) else torch.zeros(0).long()
    )


def training_hashes(splits: Splits) -> torch.Tensor:
    """Sorted hashes of the SMILES of training and validation rows, where they are known."""
    if "hash" not in splits.graphs.extra:
        return torch.zeros(0, dtype=torch.long)
    rows = torch.cat([splits[part] for part in ("train", "val") if part in splits])
    hashes: torch.Tensor = splits.graphs.extra["hash"].cpu()[rows].unique()
    return hashes
