"""Molecules as SVG by RDKit, with atoms and bonds shaded or pale by their weights."""

import re
from collections.abc import Sequence
from functools import cache
from html import escape
from typing import Any

from outland.chem.featurizer import parse, rdkit

STABLE = 0.5
_PATH = re.compile(r"<path +class='([^']*)' +d='([^']*)' +(?:style|fill)='([^']*)'")  # strokes, and letters
_WIDTH, _HEIGHT = 260, 180


def draw_molecule(smiles: str, atoms: Sequence[float] | None, bonds: Sequence[float] | None) -> str:
    """A molecule as an `svg` element, with weights from 0 to 1 of atoms and bonds in RDKit's order; None shades none.

    Bonds without weights are as pale as the paler of their ends.
    """
    molecule = parse(smiles.strip())
    ends = [(bond.GetBeginAtomIdx(), bond.GetEndAtomIdx()) for bond in molecule.GetBonds()]
    atom_weights = atoms if atoms is not None else [1.0] * molecule.GetNumAtoms()
    bond_weights = bonds if bonds is not None else [min(atom_weights[i], atom_weights[j]) for i, j in ends]
    drawer = _draw(molecule)
    points = [drawer.GetDrawCoords(atom) for atom in range(molecule.GetNumAtoms())]
    shade = [
        f'<path class="shade" style="opacity:{_opacity(weight)}" d="M{_xy(points[i])}L{_xy(points[j])}"/>'
        for (i, j), weight in (() if bonds is None else zip(ends, bonds, strict=True))
        if weight >= STABLE
    ]
    shade += [
        f'<circle style="opacity:{_opacity(weight)}" cx="{point.x:.0f}" cy="{point.y:.0f}" r="8"/>'
        for point, weight in (() if atoms is None else zip(points, atoms, strict=True))
        if weight >= STABLE
    ]
    paths = [_path(match, atom_weights, bond_weights) for match in _PATH.findall(drawer.GetDrawingText())]
    return _element(smiles, f"<g>{''.join(shade)}</g>{''.join(paths)}", _WIDTH, _HEIGHT)


@cache
def draw_piece(smiles: str) -> str:
    """A substructure as an `svg` element without weights; empty where it cannot be drawn."""
    molecule = parse(smiles)
    if molecule is None:
        molecule = rdkit().MolFromSmiles(smiles, sanitize=False)
    try:
        drawer = _draw(molecule, 150, 96)
    except (ValueError, RuntimeError):
        return ""
    paths = [_path(match, (), ()) for match in _PATH.findall(drawer.GetDrawingText())]
    return _element(smiles, "".join(paths), 150, 96)


def _draw(molecule: Any, width: int = _WIDTH, height: int = _HEIGHT) -> Any:
    from rdkit.Chem.Draw import rdMolDraw2D

    drawer = rdMolDraw2D.MolDraw2DSVG(width, height)
    options: Any = drawer.drawOptions()
    options.bondLineWidth, options.padding, options.maxFontSize = 1, 0.08, 14
    try:
        rdMolDraw2D.PrepareAndDrawMolecule(drawer, molecule)
    except ValueError:  # it cannot be kekulized
        drawer = rdMolDraw2D.MolDraw2DSVG(width, height)
        rdMolDraw2D.PrepareAndDrawMolecule(drawer, molecule, kekulize=False)
    drawer.FinishDrawing()
    return drawer


def _xy(point: Any) -> str:
    return f"{point.x:.0f},{point.y:.0f}"


def _opacity(weight: float) -> str:
    return f"{0.25 + 0.75 * min(1.0, (weight - STABLE) / (1 - STABLE)):.2f}"


def _path(match: tuple[str, str, str], atoms: Sequence[float], bonds: Sequence[float]) -> str:
    """A line or letter of RDKit's drawing without redundant text, pale where its atom or bond weighs little."""
    classes, path, style = match
    owners = {name.split("-")[0]: int(name.split("-")[1]) for name in reversed(classes.split()) if "-" in name}
    index, weights = (owners["bond"], bonds) if "bond" in owners else (owners.get("atom", -1), atoms)
    pale = ' class="pale"' if 0 <= index < len(weights) and weights[index] < STABLE else ""
    path = re.sub(r" ?([MLQZC]) ?", r"\1", path)
    if ":" not in style:  # a letter
        return f'<path{pale} d="{path}" fill="{style}"/>'
    fill, stroke = (re.search(rf"(?<![-\w]){name}:(#\w+|none)", style) for name in ("fill", "stroke"))
    colour = f' fill="{fill.group(1) if fill else "none"}"'
    if stroke is not None:
        colour += f' stroke="{stroke.group(1)}"'
    return f'<path{pale} d="{path}"{colour}/>'


def _element(title: str, inside: str, width: int, height: int) -> str:
    size = f"0 0 {width} {height}"
    return f'<svg class="molecule" viewBox="{size}" role="img" aria-label="{escape(title)}">{inside}</svg>'
