"""A molecule as SVG by RDKit: stable atoms and bonds shaded, the rest pale."""

import re
from collections.abc import Sequence
from functools import cache
from html import escape
from typing import Any

from outland.chem.featurizer import parse, rdkit

STABLE = 0.5
_ELEMENT = re.compile(r"<path +class='([^']*)' +d='([^']*)' +(?:style|fill)='([^']*)'")  # strokes, and letters
_WIDTH, _HEIGHT = 260, 180


def draw_molecule(smiles: str, atoms: Sequence[float] | None, bonds: Sequence[float] | None) -> str:
    """The picture; weights are for RDKit's atoms and bonds in their order, None where they tell nothing.

    A bond without a weight of its own is as pale as the paler of its ends.
    """
    molecule = parse(smiles.strip())
    ends = [(bond.GetBeginAtomIdx(), bond.GetEndAtomIdx()) for bond in molecule.GetBonds()]
    atom_ink = atoms if atoms is not None else [1.0] * molecule.GetNumAtoms()
    bond_ink = bonds if bonds is not None else [min(atom_ink[i], atom_ink[j]) for i, j in ends]
    drawer = _drawn(molecule)
    at = [drawer.GetDrawCoords(place) for place in range(molecule.GetNumAtoms())]
    shade = [
        f'<path class="shade" style="opacity:{_depth(weight)}" d="M{_point(at[i])}L{_point(at[j])}"/>'
        for (i, j), weight in (() if bonds is None else zip(ends, bonds, strict=True))
        if weight >= STABLE
    ]
    shade += [
        f'<circle style="opacity:{_depth(weight)}" cx="{place.x:.0f}" cy="{place.y:.0f}" r="8"/>'
        for place, weight in (() if atoms is None else zip(at, atoms, strict=True))
        if weight >= STABLE
    ]
    lines = [_line(found, atom_ink, bond_ink) for found in _ELEMENT.findall(drawer.GetDrawingText())]
    return _framed(smiles, f"<g>{''.join(shade)}</g>{''.join(lines)}", _WIDTH, _HEIGHT)


@cache
def draw_piece(smiles: str) -> str:
    """A substructure, without weights; the empty text where it cannot be drawn."""
    chem = rdkit()
    molecule = parse(smiles)
    if molecule is None:
        molecule = chem.MolFromSmiles(smiles, sanitize=False)
    try:
        drawer = _drawn(molecule, 150, 96)
    except (ValueError, RuntimeError):
        return ""
    everything = [1.0] * 1000
    lines = [_line(found, everything, everything) for found in _ELEMENT.findall(drawer.GetDrawingText())]
    return _framed(smiles, "".join(lines), 150, 96)


def _drawn(molecule: Any, width: int = _WIDTH, height: int = _HEIGHT) -> Any:
    from rdkit.Chem.Draw import rdMolDraw2D

    drawer = rdMolDraw2D.MolDraw2DSVG(width, height)
    options: Any = drawer.drawOptions()
    options.bondLineWidth, options.padding, options.maxFontSize = 1, 0.08, 14
    try:
        rdMolDraw2D.PrepareAndDrawMolecule(drawer, molecule)
    except ValueError:  # no alternation of single and double bonds fits
        drawer = rdMolDraw2D.MolDraw2DSVG(width, height)
        rdMolDraw2D.PrepareAndDrawMolecule(drawer, molecule, kekulize=False)
    drawer.FinishDrawing()
    return drawer


def _point(place: Any) -> str:
    return f"{place.x:.0f},{place.y:.0f}"


def _depth(weight: float) -> str:
    return f"{0.25 + 0.75 * min(1.0, (weight - STABLE) / (1 - STABLE)):.2f}"


def _line(found: tuple[str, str, str], atoms: Sequence[float], bonds: Sequence[float]) -> str:
    """One stroke or letter of RDKit's, in fewer words; pale where it belongs to the environment."""
    kind, path, style = found
    owners = {word.split("-")[0]: int(word.split("-")[1]) for word in reversed(kind.split()) if "-" in word}
    place, weights = (owners["bond"], bonds) if "bond" in owners else (owners.get("atom", -1), atoms)
    pale = ' class="pale"' if 0 <= place < len(weights) and weights[place] < STABLE else ""
    if ":" not in style:  # a letter
        return f'<path{pale} d="{_short(path)}" fill="{style}"/>'
    fill, stroke = (re.search(rf"(?<![-\w]){name}:(#\w+|none)", style) for name in ("fill", "stroke"))
    colour = f' fill="{fill.group(1) if fill else "none"}"'
    if stroke is not None:
        colour += f' stroke="{stroke.group(1)}"'
    return f'<path{pale} d="{_short(path)}"{colour}/>'


def _short(path: str) -> str:
    """The same path with fewer blanks."""
    return re.sub(r" ?([MLQZC]) ?", r"\1", path)


def _framed(title: str, inside: str, width: int, height: int) -> str:
    name = escape(title)
    return f'<svg class="molecule" viewBox="0 0 {width} {height}" role="img" aria-label="{name}">{inside}</svg>'
