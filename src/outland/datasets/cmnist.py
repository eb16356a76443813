"""CMNIST: handwritten digits as graphs of superpixels, in colours that should not matter.

GOOD-CMNIST (Gui et al., NeurIPS 2022): the 70,000 digits of MNIST, each a graph of 75 superpixels whose grey is
multiplied by one colour. Under *covariate* shift, validation and test have colours never trained on; under *concept*
shift, the colour goes with the label in training and not in test.

Random numbers are drawn in the published order, so seed 123 gives the published parts and colours. The superpixels are
the published ones where the user has their file, else a stand-in (see `superpixels`); `source` says which.
"""

import gzip
import random
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from outland.datasets.superpixels import Bytes, read_published, superpixel_graphs
from outland.errors import OutlandError
from outland.graphs import Cache, Features, PackedGraphs, Schema, Splits, Task
from outland.graphs.cache import Key
from outland.graphs.dataset import Dataset
from outland.storage.files import checksum
from outland.storage.raw_files import DataFolder, RawFile
from outland.tables.splitting import permutation, split_at, split_both_sides

DIGITS = 70000
_TRAINING_DIGITS = 60000
_ENVIRONMENTS = 5
_VALIDATION, _TEST = 5, 6  # environments of the graphs beyond the shift
_BIASES = (0.95, 0.90, 0.85, 0.80, 0.75, 0.3, 0.0)  # of the five training environments, validation, test

# Red, green and blue. The first ten are the colours of the labels under concept shift.
PALETTE = (
    (1.0, 0.0, 0.0),
    (0.0, 1.0, 0.0),
    (0.0, 0.0, 1.0),
    (1.0, 1.0, 0.0),
    (0.0, 1.0, 1.0),
    (1.0, 0.0, 1.0),
    (1.0, 0.5, 0.5),
    (0.5, 1.0, 0.5),
    (0.5, 0.5, 1.0),
    (1.0, 1.0, 0.5),
    (1.0, 1.0, 1.0),
)
_WHITE = 10
_COVARIATE_COLORS = (0, 1, 2, 3, 4, 6, 5)  # of the five training environments, validation, test
LABEL = -1  # the colour of the label

PUBLISHED = RawFile("mnist/MNISTSuperpixels.pt", None)


def _mnist(name: str, sha256: str) -> RawFile:
    return RawFile(f"mnist/{name}", sha256, f"https://ossci-datasets.s3.amazonaws.com/mnist/{name}")


IMAGES = (
    _mnist("train-images-idx3-ubyte.gz", "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609"),
    _mnist("t10k-images-idx3-ubyte.gz", "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6"),
)
LABELS = (
    _mnist("train-labels-idx1-ubyte.gz", "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c"),
    _mnist("t10k-labels-idx1-ubyte.gz", "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6"),
)


class CMNIST(Dataset):
    """GOOD-CMNIST under a shift of colour."""

    name: ClassVar[str] = "cmnist"
    summary: ClassVar[str] = "digits of 75 superpixels; the colour should not matter (10 classes, 70,000 graphs)"
    domains: ClassVar[tuple[str, ...]] = ("color",)
    kinds: ClassVar[tuple[str, ...]] = ("covariate", "concept", "none")
    schema: ClassVar[Schema] = Schema(Features(3), Task("multiclass", 10, "accuracy"), environments=_ENVIRONMENTS)

    def load(
        self, domain: str, kind: str, seed: int = 123, cache: Cache | None = None, data: DataFolder | None = None
    ) -> Splits:
        """The splits of one kind of shift; another seed gives other parts and colours of the same distribution."""
        self.check(domain, kind)
        graphs, made_by = _load_gray(cache or Cache(), data or DataFolder())
        assignment = draw_assignments(seed)[kind]
        source = {"dataset": "cmnist", "domain": domain, "kind": kind, "seed": seed, **made_by}
        return Splits(colorize(graphs, assignment), assignment.parts, self.schema, source)


@dataclass(frozen=True)
class Assignment:
    """Part, environment and colour of each digit."""

    parts: Mapping[str, Tensor]
    environment: Tensor  # [70000]; 5 in validation and 6 in test
    color: Tensor  # row of the palette [70000], or `LABEL`


def draw_assignments(seed: int) -> dict[str, Assignment]:
    """The assignments of the three kinds of shift, drawn in the published order: none, covariate, concept."""
    rng = random.Random(seed)
    return {"none": _no_shift(rng), "covariate": _covariate(rng), "concept": _concept(rng)}


def colorize(gray: PackedGraphs, assignment: Assignment) -> PackedGraphs:
    """The graphs with node features gray × colour; edges are shared with the gray graphs."""
    color = torch.where(assignment.color == LABEL, gray.y, assignment.color)
    x = gray.x * torch.tensor(PALETTE)[color].repeat_interleave(gray.node_counts, dim=0)
    return replace(gray, x=x, environment=assignment.environment, extra={**gray.extra, "color": color})


def read_idx(path: Path, shape: tuple[int, ...]) -> Bytes:
    """The bytes of a gzip'd idx file; refuse one of another shape."""
    try:
        with gzip.open(path) as stream:
            content = stream.read()
    except (OSError, EOFError, zlib.error) as problem:
        raise OutlandError(f"{path} cannot be unpacked ({problem}); replace it") from None
    header = bytes([0, 0, 8, len(shape)]) + b"".join(size.to_bytes(4, "big") for size in shape)
    expected = " x ".join(map(str, shape))
    if not content.startswith(header):
        raise OutlandError(f"{path} does not open as an idx file of {expected} bytes must; replace it")
    numbers = np.frombuffer(content, dtype=np.uint8, offset=len(header))
    if len(numbers) != np.prod(shape):
        raise OutlandError(f"{path} holds {len(numbers)} bytes after its header, not {expected}; replace it")
    return numbers.reshape(shape)


def build_gray(data: DataFolder, superpixels: str) -> PackedGraphs:
    """All digits as gray graphs, the training digits of MNIST before its test digits."""
    if superpixels == "published":
        path = data.fetch(PUBLISHED)
        graphs = read_published(path)
        if len(graphs) != DIGITS:
            raise OutlandError(f"{path} holds {len(graphs)} graphs, not {DIGITS}; replace or remove it")
        return graphs
    sizes = (_TRAINING_DIGITS, DIGITS - _TRAINING_DIGITS)
    images = [read_idx(data.fetch(file), (size, 28, 28)) for file, size in zip(IMAGES, sizes, strict=True)]
    labels = [read_idx(data.fetch(file), (size,)) for file, size in zip(LABELS, sizes, strict=True)]
    return superpixel_graphs(np.concatenate(images), np.concatenate(labels))


def _load_gray(cache: Cache, data: DataFolder) -> tuple[PackedGraphs, dict[str, Any]]:
    """The gray graphs, one cache entry for all kinds and seeds, and where they are from.

    Published superpixels are taken where their file is, or where the cache has them; else the stand-in.
    """
    recipe: Key = {"name": "cmnist-published", "recipe": 1}
    has_file = data.has(PUBLISHED)
    published = {**recipe, "sha256": checksum(data.fetch(PUBLISHED))} if has_file else cache.find(recipe, "sha256")
    superpixels = "published" if published else "stand-in"
    key = published or {"name": "cmnist-stand-in", "recipe": 2}

    def build() -> Splits:
        graphs = build_gray(data, superpixels)
        return Splits(graphs, {"all": torch.arange(len(graphs))}, Schema(Features(1), CMNIST.schema.task), key)

    entry = cache.load_or_build(key, build)
    return entry.graphs, {"superpixels": superpixels, "versions": entry.source.get("versions", {})}


def _no_shift(rng: random.Random) -> Assignment:
    order = permutation(rng, DIGITS)
    environment = _environments(42000, 14000)[order.argsort()]
    return Assignment(split_at(order, 42000, 56000), environment, torch.full_like(order, _WHITE))


def _covariate(rng: random.Random) -> Assignment:
    order = permutation(rng, DIGITS)
    environment = _environments(56000, 7000)
    color = torch.tensor(_COVARIATE_COLORS)[environment]
    return _shifted(order, permutation(rng, 56000), 7000, environment, color)


def _concept(rng: random.Random) -> Assignment:
    order = permutation(rng, DIGITS)
    environment = _environments(42000, 14000)
    colors = []
    for index in environment.tolist():
        uniform = rng.randint(0, 9)
        colors.append(LABEL if rng.random() < _BIASES[index] else uniform)
    return _shifted(order, permutation(rng, 42000), 6300, environment, torch.tensor(colors))


def _environments(inside: int, validation: int) -> Tensor:
    """Environments of the digits in drawn order: equal blocks, then validation, then test."""
    environment = torch.full((DIGITS,), _TEST)
    environment[:inside] = torch.arange(inside) // (inside // _ENVIRONMENTS)
    environment[inside : inside + validation] = _VALIDATION
    return environment


def _shifted(order: Tensor, within: Tensor, held_out: int, environment: Tensor, color: Tensor) -> Assignment:
    """An assignment of the digits in drawn `order`, the first of which, permuted by `within`, are inside the shift."""
    parts = split_both_sides(order[within], order[len(within) :], held_out)
    inverse = order.argsort()
    return Assignment(parts, environment[inverse], color[inverse])
