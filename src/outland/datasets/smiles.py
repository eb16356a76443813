"""Streams of SMILES into packed graphs, over several processes, keeping what a split needs to know."""

import multiprocessing
import os
import threading
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any

import numpy as np
import torch

from outland.datasets.featuriser import Molecule, featurise, parse, rdkit
from outland.graphs import PackedGraphs
from outland.graphs.packed import smallest
from outland.progress import track

LONGEST = 5000  # characters; what is longer is no molecule for these models
_CHUNK = 256


@dataclass(frozen=True)
class Wanted:
    """What to find out of each molecule besides its graph.

    Args:
        lenient: see `parse`.
        scaffold: Bemis-Murcko scaffold, chirality kept.
        canonical: canonical SMILES, to tell duplicates.
        fingerprint: Morgan fingerprint of radius 2, 2048 bits.
    """

    lenient: bool = False
    scaffold: bool = True
    canonical: bool = False
    fingerprint: bool = False


@dataclass(frozen=True)
class Chunk:
    """Molecules as flat arrays, what is known of each, and the places (in the stream) of those and of the failures."""

    places: list[int]
    molecules: list[Molecule]
    scaffolds: list[str]
    canonical: list[str]
    fingerprints: list[bytes]
    failures: list[tuple[int, str]]


def read_molecules(smiles: Iterable[str], wanted: Wanted, title: str, total: int | None = None) -> Iterator[Chunk]:
    """Featurise a stream of SMILES, a chunk at a time and in order.

    Large streams are shared out to one process a core. The processes are forked, so that scripts need no guard, and
    do nothing but RDKit and NumPy.
    """
    chunks = track(_chunks(smiles), title, None if total is None else -(-total // _CHUNK))
    work = partial(_chunk, wanted=wanted)
    workers = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else (os.cpu_count() or 1)
    alone = workers == 1 or (total is not None and total <= 4 * _CHUNK)
    if alone or "fork" not in multiprocessing.get_all_start_methods():
        yield from map(work, chunks)
        return
    rdkit()
    gate = _Gate(4 * workers)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        pool = multiprocessing.get_context("fork").Pool(workers)
    with pool:
        try:
            for chunk in pool.imap(work, gate.admit(chunks)):
                gate.places.release()
                yield chunk
        finally:
            gate.close()


class _Gate:
    """Lets a pool take only so much work ahead, so that memory does not grow with the stream."""

    def __init__(self, places: int) -> None:
        self.places, self.closed = threading.Semaphore(places), False

    def admit(self, items: Iterable[tuple[int, list[str]]]) -> Iterator[tuple[int, list[str]]]:
        for item in items:
            self.places.acquire()
            if self.closed:
                return
            yield item

    def close(self) -> None:
        self.closed = True
        self.places.release()


def _chunks(smiles: Iterable[str]) -> Iterator[tuple[int, list[str]]]:
    stream, start = iter(smiles), 0
    while some := list(islice(stream, _CHUNK)):
        yield start, some
        start += len(some)


def _chunk(task: tuple[int, list[str]], wanted: Wanted) -> Chunk:
    start, smiles = task
    chunk = Chunk([], [], [], [], [], [])
    for place, text in enumerate(smiles, start):
        problem, molecule = _try(text, wanted)
        if molecule is None:
            chunk.failures.append((place, problem))
            continue
        chunk.places.append(place)
        chunk.molecules.append(featurise(molecule))
        _describe(molecule, wanted, chunk)
    return chunk


def _try(text: str, wanted: Wanted) -> tuple[str, Any]:
    if not text.strip():
        return "no SMILES", None
    if len(text) > LONGEST:
        return f"a SMILES of {len(text)} characters; the longest taken is {LONGEST}", None
    if any("\ud800" <= character <= "\udfff" for character in text):
        return "bytes that are not UTF-8", None
    molecule = parse(text.strip(), wanted.lenient)
    if molecule is None:
        return "RDKit cannot read the SMILES", None
    if molecule.GetNumAtoms() == 0:
        return "a molecule without atoms", None
    return "", molecule


def _describe(molecule: Any, wanted: Wanted, chunk: Chunk) -> None:
    if wanted.scaffold:
        from rdkit.Chem.Scaffolds import MurckoScaffold

        try:
            scaffold: str = MurckoScaffold.MurckoScaffoldSmiles(mol=molecule, includeChirality=True)
        except (ValueError, RuntimeError):
            scaffold = ""  # as for a molecule without rings
        chunk.scaffolds.append(scaffold)
    if wanted.canonical:
        chunk.canonical.append(rdkit().MolToSmiles(molecule))
    if wanted.fingerprint:
        from rdkit.Chem.rdFingerprintGenerator import GetMorganGenerator

        chunk.fingerprints.append(GetMorganGenerator(radius=2, fpSize=2048).GetFingerprint(molecule).ToBinary())


def pack(molecules: list[Molecule], y: torch.Tensor, **rest: Any) -> PackedGraphs:
    """Molecules as one set; the two directions of a bond stand side by side, so each is the other's reverse."""
    edge_counts = torch.tensor([molecule.edges.shape[1] for molecule in molecules])
    starts = (edge_counts.cumsum(0) - edge_counts).repeat_interleave(edge_counts)
    place = torch.arange(int(edge_counts.sum())) - starts
    return PackedGraphs(
        x=torch.from_numpy(np.concatenate([molecule.atoms for molecule in molecules])),
        edge_index=smallest(torch.from_numpy(np.concatenate([molecule.edges for molecule in molecules], axis=1))),
        edge_attr=torch.from_numpy(np.concatenate([molecule.bonds for molecule in molecules])),
        node_counts=torch.tensor([len(molecule.atoms) for molecule in molecules]),
        edge_counts=edge_counts,
        reverse=smallest(place ^ 1),
        y=y,
        **rest,
    )


def numbered(names: Iterable[str]) -> torch.Tensor:
    """Whole numbers for names, in order of first appearance."""
    seen: dict[str, int] = {}
    return torch.tensor([seen.setdefault(name, len(seen)) for name in names], dtype=torch.long)
