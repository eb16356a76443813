"""Streams of SMILES as arrays, over several processes, with scaffold, canonical SMILES and fingerprint.

Nothing here imports PyTorch, which takes a process for seconds.
"""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, islice
from typing import Any

from outland.chem.descriptors import morgan_generator
from outland.chem.featurizer import ATOMS, CIP_ATOMS, Molecule, featurize, parse, rdkit
from outland.chem.limits import MAX_ATOMS, graph_problem, text_problem
from outland.graphs.schema import Features
from outland.progress import track
from outland.workers import AHEAD, available_cores, map_ordered

CHUNK = 256  # molecules
Batch = list[tuple[int, Any]]  # rows of a stream, each with its index
_FEW = 2048  # molecules below which starting processes costs more than it saves


@dataclass(frozen=True)
class MoleculeOptions:
    """What to compute of each molecule."""

    lenient: bool = False  # see `parse`
    scaffold: bool = True  # Bemis-Murcko, with chirality
    most_scaffolds: int | None = None  # rows from the first on that get one; the others have an empty one
    canonical: bool = False  # SMILES, equal for duplicates
    fingerprint: bool = False  # Morgan's, as RDKit has it, for clusters
    vector: bool = False  # fingerprint, descriptors and counts in each `Molecule`
    counts: bool = True  # among them
    graph: bool = True  # atoms and bonds
    atoms: Features = ATOMS  # or `CIP_ATOMS`


class MoleculeText(str):
    """The SMILES of a row, with what else its table says of the molecule.

    Args:
        text: the SMILES.
        reason: why the row cannot be used, where that is known already.
        block: of the SDF file it was read from.
    """

    reason: str
    block: str

    def __new__(cls, text: str, reason: str = "", block: str = "") -> "MoleculeText":  # noqa: D102
        made = super().__new__(cls, text)
        made.reason, made.block = reason, block
        return made


@dataclass(frozen=True)
class Chunk:
    """Consecutive rows of a stream: the molecules that could be read, with what the options ask for."""

    indices: list[int] = field(default_factory=list)  # in the stream
    molecules: list[Molecule] = field(default_factory=list)
    scaffolds: list[str] = field(default_factory=list)
    canonical: list[str] = field(default_factory=list)
    fingerprints: list[bytes] = field(default_factory=list)
    failures: list[tuple[int, str]] = field(default_factory=list)  # index and reason of each of the other rows


def read_molecules(
    smiles: Iterable[Any],
    options: MoleculeOptions,
    title: str,
    total: int | None = None,
    workers: int | None = None,
    size: int = CHUNK,
) -> Iterator[Chunk]:
    """Featurize a stream of SMILES or RDKit molecules; yield chunks of `size` rows in order.

    There is by default one worker process a core, and none for a short stream. `title` is the progress bar's.
    """
    chunks = read_batches(_batched(smiles, size), options, workers)
    yield from track(chunks, title, None if total is None else -(-total // size))


def read_batches(batches: Iterator[Batch], options: MoleculeOptions, workers: int | None = None) -> Iterator[Chunk]:
    """Featurize batches of rows; yield a chunk of each, in order.

    Without a number of `workers` there is one a core, and none where all batches have few rows: to know, no more are
    read than workers read ahead.
    """
    rdkit()
    first = list[Batch]()
    if workers is None:
        workers = available_cores()
        while workers > 1 and len(first) < AHEAD * workers and sum(map(len, first)) < _FEW:
            if batch := next(batches, None):
                first.append(batch)
            else:
                workers = 1
    yield from map_ordered(partial(_featurize_batch, options=options), chain(first, batches), workers)


def _batched(smiles: Iterable[Any], size: int) -> Iterator[Batch]:
    rows = enumerate(smiles)
    while batch := list(islice(rows, size)):
        yield batch


def _featurize_batch(batch: Batch, options: MoleculeOptions) -> Chunk:
    chunk = Chunk()
    for index, text in batch:
        molecule, reason = _read(text, options)
        if molecule is None:
            chunk.failures.append((index, reason))
            continue
        chunk.indices.append(index)
        chunk.molecules.append(featurize(molecule, options.vector, options.graph, options.counts, options.atoms))
        if options.scaffold:
            beyond = options.most_scaffolds is not None and index >= options.most_scaffolds
            chunk.scaffolds.append("" if beyond else _scaffold(molecule))
        if options.canonical:
            chunk.canonical.append(rdkit().MolToSmiles(molecule))
        if options.fingerprint:
            chunk.fingerprints.append(_fingerprint(molecule))
    return chunk


def has_invalid_utf8(text: str) -> bool:
    """Whether a text was decoded from bytes that are not UTF-8: they were read as surrogates."""
    return any("\ud800" <= character <= "\udfff" for character in text)


def _read(text: Any, options: MoleculeOptions) -> tuple[Any, str]:
    """The RDKit molecule of a row; or None and the reason."""
    if isinstance(text, rdkit().Mol):
        problem = graph_problem(text) if text.GetNumAtoms() else "a molecule without atoms"
        if problem:
            return None, problem
        return _as_of_smiles(text) if options.atoms == CIP_ATOMS else (text, "")
    if text is None or text != text:  # NaN, as tables have it
        return None, "no SMILES"
    if isinstance(text, MoleculeText) and text.reason:
        return None, text.reason
    if not isinstance(text, str):
        return None, f"a {type(text).__name__}, neither SMILES nor molecule"
    if not text.strip():
        return None, "no SMILES"
    if has_invalid_utf8(text):
        return None, "bytes that are not UTF-8"
    if problem := text_problem(text.strip()):
        return None, problem
    molecule = parse(text.strip(), options.lenient)
    if molecule is None:
        return None, "RDKit cannot read the SMILES"
    if molecule.GetNumAtoms() == 0:
        return None, "a molecule without atoms"
    if molecule.GetNumAtoms() > MAX_ATOMS:
        return None, f"a molecule of {molecule.GetNumAtoms()} atoms; the largest taken has {MAX_ATOMS}"
    return molecule, ""


def _as_of_smiles(molecule: Any) -> tuple[Any, str]:
    """A copy of an RDKit molecule, sanitised and with its stereochemistry as of one read from SMILES; or the reason.

    Pickling loses some of the stereochemistry, and that a molecule was never sanitised.
    """
    chem = rdkit()
    copy = chem.Mol(molecule)
    if any(atom.HasQuery() and atom.GetAtomicNum() for atom in copy.GetAtoms()):
        return None, "a query, as SMARTS are, and no molecule"
    try:
        chem.SanitizeMol(copy)
    except (ValueError, RuntimeError):
        return None, "RDKit cannot sanitise the molecule"
    chem.SetDoubleBondNeighborDirections(copy)  # which E and Z are assigned by
    chem.AssignStereochemistry(copy, cleanIt=True, force=True, flagPossibleStereoCenters=True)
    return copy, ""


def read_block(block: str) -> MoleculeText:
    """The SMILES of a molecule's block, as SDF files have it, or the reason why there is none."""
    if has_invalid_utf8(block):
        return MoleculeText("", "bytes that are not UTF-8", block)
    chem = rdkit()
    smiles, reason = "", "RDKit cannot read the molecule"
    with suppress(ValueError, RuntimeError):
        molecule = chem.MolFromMolBlock(block, sanitize=False, removeHs=False)
        if molecule is not None and not (problem := graph_problem(molecule)):
            molecule = chem.MolFromMolBlock(block)
            smiles = "" if molecule is None else chem.MolToSmiles(molecule)
        elif molecule is not None:
            reason = problem
    return MoleculeText(smiles, "" if smiles else reason, block)


def _scaffold(molecule: Any) -> str:
    from rdkit.Chem.Scaffolds import MurckoScaffold

    try:
        return str(MurckoScaffold.MurckoScaffoldSmiles(mol=molecule, includeChirality=True))
    except (ValueError, RuntimeError):
        return ""  # as for a molecule without rings


def _fingerprint(molecule: Any) -> bytes:
    return bytes(morgan_generator().GetFingerprint(molecule).ToBinary())
