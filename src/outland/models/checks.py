"""Whether the parts of a model that was read from a folder fit each other."""

from dataclasses import replace

import torch
from torch import Tensor

from outland.chem.elements import SYMBOLS
from outland.graphs import Features, PackedGraphs, Schema, Splits
from outland.models.calibration import Calibration
from outland.models.expected_error import FLAGS, ExpectedError
from outland.models.gaussian_process import GaussianProcess
from outland.models.knn import KNNDistance
from outland.models.members import Network
from outland.models.model import TrainedModel
from outland.models.trees import BITS, Trees


def check_model(model: TrainedModel) -> None:
    """A `ValueError` where the parts of a model do not fit each other; a graph of two nodes is tried."""
    _check_classes(model)
    _check_members(model)
    _check_numbers(model)
    elements = model.training_elements
    if len(elements) and not (
        model.kind == "molecules" and 0 <= int(elements.min()) <= int(elements.max()) < len(SYMBOLS)
    ):
        raise ValueError("its training elements are no elements of molecules")
    if model.reference is not None:
        index = torch.arange(len(model.reference))
        parts = dict.fromkeys(("train", "val", "test"), index)
        Splits(model.reference, parts, replace(model.schema, environments=0)).check()
        if any(bool(values.isinf().any()) for values in model.reference.extra.values() if values.is_floating_point()):
            raise ValueError("a descriptor of its training molecules is infinite")
    if model.distance is not None:
        _check_distance(model, model.distance)
    _check_uncertainty(model)


def _check_classes(model: TrainedModel) -> None:
    """Names and counts of classes, and names of targets, as many as the task has."""
    task, counts, draws = model.task, model.training.class_counts, model.training.class_draws
    classes = {"binary": 2, "regression": 0, "multiclass": task.outputs}[task.kind]
    if len(model.classes) != classes:
        raise ValueError(f"it has {len(model.classes)} classes, and not as many outputs")
    if len(model.targets) != (1 if task.kind == "multiclass" else task.outputs):
        raise ValueError(f"it has {len(model.targets)} targets, and not as many outputs")
    if model.assessment is not None and [score.target for score in model.assessment.of("test")] != model.targets:
        raise ValueError("its scores are of other targets")
    least = 0 if counts == draws else 1
    if len(counts) not in (0, classes) or len(draws) != len(counts) or min([least, *counts, *draws]) < least:
        raise ValueError("its classes were counted otherwise")


def _check_members(model: TrainedModel) -> None:
    if not model.members:
        raise ValueError("it has no members")
    if len(model.weights) not in (0, len(model.members)) or min([0.0, *model.weights]) < 0:
        raise ValueError("its weights are not those of its members")
    if model.weights and abs(sum(model.weights) - 1) > 1e-6:
        raise ValueError("its weights do not sum to 1")
    for member in model.members:
        if isinstance(member, Trees | GaussianProcess):
            member.check()
        elif isinstance(member, Network):
            if not all(bool(tensor.isfinite().all()) for tensor in member.method.state_dict().values()):
                raise ValueError("a weight is not finite")
            if any(
                (buffer < 0).any() for name, buffer in member.method.named_buffers() if name.endswith("running_var")
            ):
                raise ValueError("a variance is below 0")
            if len(member.offset) not in (0, model.task.outputs):
                raise ValueError("the offset of a network is of another task")


def _check_numbers(model: TrainedModel) -> None:
    calibration, distance, expected = model.calibration, model.distance, Calibration.identity(model.task)
    if len(calibration.temperature) != len(expected.temperature) or len(calibration.offset) != len(expected.offset):
        raise ValueError("its calibration is of another task")
    if min(calibration.temperature) <= 0 or (distance is not None and min(distance.unit, distance.far) <= 0):
        raise ValueError("a number of its calibration or distances is impossible")


def _check_distance(model: TrainedModel, distance: KNNDistance) -> None:
    embeddings = None
    if model.network is not None:
        embeddings = model.network.outputs_and_embeddings(_smallest_graph(model.schema))[1]
    embedding = torch.zeros(0) if embeddings is None else embeddings[0]
    tensors = (distance.center, distance.scale, distance.reference[0])
    if distance.reference.ndim != 2 or any(
        (tensor.shape, tensor.dtype) != (embedding.shape, embedding.dtype) for tensor in tensors
    ):
        raise ValueError("its distances are of other embeddings")
    if not all(bool(tensor.isfinite().all()) for tensor in (distance.center, distance.scale, distance.reference)):
        raise ValueError("a number of its distances is not finite")
    if not bool((distance.scale > 0).all()):
        raise ValueError("a scale of its distances is not above 0")


def _check_uncertainty(model: TrainedModel) -> None:
    """Fingerprints, expected errors and conformal scores."""
    neighbours, expected, conformal = model.neighbours, model.expected_error, model.conformal
    if neighbours is not None:
        bits = neighbours.fingerprints
        if bits.dtype != torch.uint8 or bits.ndim != 2 or bits.shape[1] != BITS // 8 or not len(bits):
            raise ValueError("its training fingerprints are not of the right kind")
    if expected is not None:
        _check_expected_error(model, expected)
    if conformal is not None:
        targets, features = len(model.targets), conformal.features
        shape = (len(conformal.scores), targets)
        kinds = (conformal.scores.dtype, conformal.labels.dtype)
        if not conformal.scores.shape == conformal.labels.shape == shape or kinds != (torch.float32, torch.int64):
            raise ValueError("its conformal scores are of other targets")
        if bool(conformal.scores.isinf().any()) or conformal.least_scale <= 0:
            raise ValueError("a number of its conformal scores is impossible")
        if features is not None and (
            features.dtype != torch.float32 or features.ndim != 2 or len(features) != len(conformal.scores)
        ):
            raise ValueError("its conformal scores have features of other rows")
        if features is not None and not bool(features.isfinite().all()):
            raise ValueError("a feature of its conformal scores is not finite")


def _check_expected_error(model: TrainedModel, expected: ExpectedError) -> None:
    known = {
        "dissimilarity": model.neighbours is not None,
        "distance": model.distance is not None,
        "spread": len(model.members) > 1,
        "extremity": not model.classes,
        "uncertainty": bool(model.classes),
    }
    count, knots = len(expected.names), expected.knots
    if not count or len(set(expected.names)) < count or not all(known[name] for name in expected.names):
        raise ValueError("its expected error reads what the model does not have")
    if knots.dtype != torch.float32 or knots.ndim != 2 or len(knots) != count or knots.shape[1] < 2:
        raise ValueError("its expected error has other signals")
    if not bool(knots.isfinite().all()) or bool((knots.diff(dim=1) < 0).any()):
        raise ValueError("the quantiles of its expected error do not rise")
    if len(expected.weights) != 1 + 2 * count or min(expected.weights) < 0 or len(expected.by_flag) != len(FLAGS):
        raise ValueError("its expected error has other signals")


def _smallest_graph(schema: Schema) -> PackedGraphs:
    """A graph of two joined nodes, all features and descriptors 0."""

    def zeros(features: Features | None) -> Tensor | None:
        if features is None:
            return None
        return torch.zeros(2, features.width, dtype=torch.float if features.vocabulary is None else torch.long)

    x, edge_attr, pair = zeros(schema.node), zeros(schema.edge), torch.tensor([[0, 1], [1, 0]])
    assert x is not None
    two = torch.tensor([2])
    extra = {"descriptors": torch.zeros(1, schema.descriptors)} if schema.descriptors else {}
    return PackedGraphs(x, pair, two, two, torch.zeros(1, schema.task.outputs), pair[1], edge_attr, extra=extra)
