"""Digits as graphs of 75 superpixels: cut from the images, or read from the published file.

The published graphs (Monti et al., CVPR 2017) came without their code, so graphs made here are a stand-in: the same
number of nodes, very nearly the same number of edges, other superpixels. SLIC starts from 75 seeds spread over a mask
of the whole image, because its grid of seeds holds 81. One seed may end up without a pixel, as it does in two of the
70,000 digits of MNIST; such a digit is segmented again, more compactly.
"""

import os
import zipfile
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt
import torch

from outland.errors import OutlandError, printable
from outland.graphs import PackedGraphs
from outland.graphs.edges import reverse_edges, to_smallest_int
from outland.progress import track
from outland.storage.files import open_regular
from outland.workers import available_cores, map_ordered

SUPERPIXELS = 75
COMPACTNESS = (0.5, 1.0, 2.0)  # the first that leaves no superpixel empty
_RADIUS = 9  # pixels between the centers of neighbours; a superpixel is its own neighbour
CHUNK = 250  # digits that a worker segments at once

Bytes = npt.NDArray[np.uint8]
Batch = tuple[int, Bytes, Bytes]  # index of the first digit, images, labels
Arrays = dict[str, npt.NDArray[Any]]


def superpixel_graphs(images: Bytes, labels: Bytes, workers: int | None = None) -> PackedGraphs:
    """Graphs of images `[G, H, W]` and their labels `[G]`, the same for any number of `workers`."""
    if not len(images):
        raise OutlandError("there are no digits to cut into superpixels")
    starts = range(0, len(images), CHUNK)
    batches = [(start, images[start : start + CHUNK], labels[start : start + CHUNK]) for start in starts]
    results = map_ordered(_batch_graphs, batches, min(workers or available_cores(), len(batches)))
    chunks = [
        PackedGraphs.from_tensors({name: torch.from_numpy(array) for name, array in arrays.items()})
        for arrays in track(results, f"Cutting {len(images):,} digits into superpixels", len(batches))
    ]
    return PackedGraphs.concatenate(chunks)


def read_published(path: Path) -> PackedGraphs:
    """The graphs of the published file, its training digits before its test digits; no code in the file is run."""
    records = _records(path)
    chunks = []
    for start in track(range(0, len(records), CHUNK), f"Packing {len(records):,} published digits"):
        chunks.append(_pack_records(path, start, records[start : start + CHUNK]))
        records[start : start + CHUNK] = [None] * len(chunks[-1])  # their edges take eight times the memory of ours
    return PackedGraphs.concatenate(chunks)


def _batch_graphs(batch: Batch) -> Arrays:
    """The tensors of the packed graphs as arrays: PyTorch sends tensors between processes as open files."""
    first, images, labels = batch
    gray, centers = _mean_gray_and_center(images, segment(images, first))
    near = ((centers[:, :, None] - centers[:, None]) ** 2).sum(-1) <= _RADIUS**2
    _, source, target = near.nonzero()
    edge_index = torch.from_numpy(np.stack([source, target]))
    node_counts = torch.full((len(images),), SUPERPIXELS)
    edge_counts = torch.from_numpy(near.sum((1, 2)))
    packed = PackedGraphs(
        x=torch.from_numpy(gray.reshape(-1, 1)),
        edge_index=to_smallest_int(edge_index),
        node_counts=node_counts,
        edge_counts=edge_counts,
        y=torch.from_numpy(labels.astype(np.int64)),
        reverse=to_smallest_int(reverse_edges(edge_index, node_counts, edge_counts)),
        extra={"position": torch.from_numpy(centers.astype(np.float16))},
    )
    return {name: tensor.numpy() for name, tensor in packed.tensors().items()}


def segment(images: Bytes, first: int = 0) -> npt.NDArray[np.int64]:
    """The superpixel of each pixel `[G, H, W]`, from 0 to 74; `first` is the index of the first digit, for errors."""
    try:
        slic = import_module("skimage.segmentation").slic
    except ImportError:
        raise OutlandError("superpixels need scikit-image: pip install 'outland[images]'") from None
    fixed = {
        "n_segments": SUPERPIXELS,
        "enforce_connectivity": False,
        "mask": np.ones(images.shape[1:], dtype=bool),
        "start_label": 0,
        "channel_axis": None,
    }
    segments = np.empty(images.shape, dtype=np.int64)
    for index, image in enumerate(images):
        for compactness in COMPACTNESS:
            segments[index] = slic(image / 255.0, compactness=compactness, **fixed)
            count = len(np.unique(segments[index]))
            if count == SUPERPIXELS:
                break
        else:
            raise OutlandError(
                f"digit {first + index} falls into {count} superpixels, not {SUPERPIXELS}: "
                "look at its image, or try scikit-image 0.26"
            )
    return segments


def _mean_gray_and_center(images: Bytes, segments: npt.NDArray[np.int64]) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Mean gray from 0 to 1 `[G, 75]` and center `[G, 75, 2]` of each superpixel."""
    count, height, width = images.shape
    superpixel = (segments + SUPERPIXELS * np.arange(count)[:, None, None]).ravel()
    total = count * SUPERPIXELS
    sizes = np.bincount(superpixel, minlength=total)
    row, column = (np.broadcast_to(axis, images.shape) for axis in np.ogrid[:height, :width])
    gray, y, x = (
        np.bincount(superpixel, weights=values.ravel(), minlength=total) / sizes for values in (images, row, column)
    )
    centers = np.stack([y, x], axis=-1).reshape(count, SUPERPIXELS, 2)
    return (gray / 255).astype(np.float32).reshape(count, SUPERPIXELS), centers


def _records(path: Path) -> list[Any]:
    try:
        with open_regular(path, follow=True) as stream:
            _check_archive(stream)
            lists = torch.load(stream, map_location="cpu", weights_only=True)
    except Exception as problem:  # a reader of another's format: what a mutant makes it raise cannot be listed
        reason = printable(str(problem).partition("\n")[0] or type(problem).__name__, 300)
        raise OutlandError(f"{path} cannot be read as the published superpixel file: {reason}") from None
    pair = isinstance(lists, list | tuple) and len(lists) == 2
    if not pair or not all(isinstance(records, list | tuple) and len(records) for records in lists):
        raise OutlandError(f"{path} is not the published superpixel file: it must hold two lists of graphs")
    return [*lists[0], *lists[1]]


def _check_archive(stream: BinaryIO) -> None:
    """Refuse a zip archive that would unpack to more than its own size."""
    if zipfile.is_zipfile(stream):
        size = os.fstat(stream.fileno()).st_size
        with zipfile.ZipFile(stream) as archive:
            if sum(member.file_size for member in archive.infolist()) > size:
                raise ValueError("it holds more than its own size")
    stream.seek(0)


def _pack_records(path: Path, first: int, records: Sequence[Any]) -> PackedGraphs:
    from torch_geometric.data import Data

    names = ("x", "edge_index", "y")
    for index, record in enumerate(records, first):
        if not isinstance(record, dict) or not all(isinstance(record.get(name), torch.Tensor) for name in names):
            raise OutlandError(f"{path}, graph {index}: the tensors {', '.join(names)} must be there")
    try:
        return PackedGraphs.from_data_list([Data(**{name: record[name] for name in names}) for record in records])
    except (OutlandError, ArithmeticError, LookupError, RuntimeError, TypeError, ValueError) as problem:
        raise OutlandError(f"{path}, among graphs {first} to {first + len(records) - 1}: {problem}") from None
