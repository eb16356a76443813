"""Streams of SMILES into packed graphs, over several processes, keeping what a split needs to know."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, islice
from typing import Any

import numpy as np
import torch

from outland.chem.featurizer import Molecule, featurise, parse, rdkit
from outland.graphs import PackedGraphs
from outland.graphs.packed import smallest
from outland.progress import track
from outland.workers import available_cores, map_ordered

LONGEST = 5000  # characters; what is longer is no molecule for these models
MOST_ATOMS = 1000  # finding a scaffold takes the cube of it: a second for so many, minutes for some more
_CHUNK = 256
_FEW = 8  # chunks below which starting processes costs more than it saves


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


def read_molecules(
    smiles: Iterable[Any], wanted: Wanted, title: str, total: int | None = None, workers: int | None = None
) -> Iterator[Chunk]:
    """Featurise a stream of SMILES, a chunk at a time and in order; large streams are shared out to processes.

    Args:
        smiles: the stream; RDKit molecules may stand in it too.
        wanted: what to find out.
        title: of the progress bar.
        total: how many there are, if that is known.
        workers: processes; by default one a core, or this one alone where there is little to do.
    """
    rdkit()
    chunks, work = _chunks(smiles), partial(_chunk, wanted=wanted)
    ahead = list(islice(chunks, _FEW))
    if workers is None:
        workers = 1 if len(ahead) < _FEW else available_cores()
    results = map_ordered(work, chain(ahead, chunks), workers)
    yield from track(results, title, None if total is None else -(-total // _CHUNK))


def _chunks(smiles: Iterable[Any]) -> Iterator[tuple[int, list[Any]]]:
    stream, start = iter(smiles), 0
    while some := list(islice(stream, _CHUNK)):
        yield start, some
        start += len(some)


def _chunk(task: tuple[int, list[Any]], wanted: Wanted) -> Chunk:
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


def not_utf8(text: str) -> bool:
    """Whether a cell held bytes that are not UTF-8: they were read as surrogates."""
    return any("\ud800" <= character <= "\udfff" for character in text)


def _try(text: Any, wanted: Wanted) -> tuple[str, Any]:
    if isinstance(text, rdkit().Mol):
        return ("", text) if text.GetNumAtoms() else ("a molecule without atoms", None)
    if text is None or text != text:  # NaN, as tables have it
        return "no SMILES", None
    if not isinstance(text, str):
        return f"a {type(text).__name__}, neither SMILES nor molecule", None
    if not text.strip():
        return "no SMILES", None
    if len(text) > LONGEST:
        return f"a SMILES of {len(text)} characters; the longest taken is {LONGEST}", None
    if not_utf8(text):
        return "bytes that are not UTF-8", None
    molecule = parse(text.strip(), wanted.lenient)
    if molecule is None:
        return "RDKit cannot read the SMILES", None
    if molecule.GetNumAtoms() == 0:
        return "a molecule without atoms", None
    if molecule.GetNumAtoms() > MOST_ATOMS:
        return f"a molecule of {molecule.GetNumAtoms()} atoms; the largest taken has {MOST_ATOMS}", None
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


def pack(molecules: Sequence[Molecule], y: torch.Tensor, **rest: Any) -> PackedGraphs:
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
