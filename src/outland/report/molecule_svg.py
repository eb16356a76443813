"""Molecules as SVG by RDKit: contributions in red and blue, or atoms and bonds shaded or pale by their weights."""

import math
import re
from collections.abc import Sequence
from functools import cache
from html import escape
from statistics import median
from typing import Any

from outland.chem.featurizer import parse, rdkit

STABLE = 0.5
_PATH = re.compile(r"<path +class='([^']*)' +d='([^']*)' +(?:style|fill)='([^']*)'")  # strokes, and letters
_WIDTH, _HEIGHT = 260, 180
_RED, _BLUE = (232, 96, 76), (72, 147, 214)
_FAINT = 0.08  # share of the scale below which nothing is coloured


def draw_contributions(smiles: str, values: Sequence[float], scale: float) -> str:
    """A molecule as an `svg` element, atoms red where they contribute above 0 and blue below, full at `scale`.

    A bond has the mean of its ends where they agree in sign. Letters are black: colour means contributions alone.
    """
    molecule = parse(smiles.strip())
    drawer = _draw(molecule, black=True)
    points = [drawer.GetDrawCoords(atom) for atom in range(molecule.GetNumAtoms())]
    ends = [(bond.GetBeginAtomIdx(), bond.GetEndAtomIdx()) for bond in molecule.GetBonds()]
    length = median(math.dist((points[i].x, points[i].y), (points[j].x, points[j].y)) for i, j in ends) if ends else 30
    radius = min(max(0.36 * length, 4.0), 13.0)
    halos = [
        (
            abs(value),
            f'<path class="halo" stroke="{signed_colour(value / scale)}" d="M{_xy(points[i])}L{_xy(points[j])}"/>',
        )
        for i, j in ends
        if values[i] * values[j] > 0 and abs(value := (values[i] + values[j]) / 2) > _FAINT * scale
    ]
    halos += [
        (
            abs(value),
            f'<circle fill="{signed_colour(value / scale)}" cx="{point.x:.1f}" cy="{point.y:.1f}" r="{radius:.1f}"'
            f' data-value="{_signed(value)}"/>',
        )
        for point, value in zip(points, values, strict=True)
        if abs(value) > _FAINT * scale
    ]
    shapes = "".join(shape for _, shape in sorted(halos, key=lambda halo: halo[0]))  # the strongest on top
    paths = [_path(match, (), ()) for match in _PATH.findall(drawer.GetDrawingText())]
    inside = f'<g stroke-width="{1.5 * radius:.1f}">{shapes}</g>{"".join(paths)}'
    return _element(smiles, inside, _WIDTH, _HEIGHT)


def _signed(value: float) -> str:
    """A number with its sign, two digits after the point or two significant ones, whichever is shorter."""
    return min(f"{value:+.2f}", f"{value:+.2g}", key=len) if abs(value) >= 0.01 else f"{value:+.1g}"


def signed_colour(share: float) -> str:
    """White at 0, red at 1 and above, blue at -1 and below; the two are told apart with any colour vision."""
    share = min(1.0, max(-1.0, share))
    full = _RED if share > 0 else _BLUE
    return "#" + "".join(f"{round(255 + (channel - 255) * abs(share)):02x}" for channel in full)


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
        f'<circle style="opacity:{_opacity(weight)}" cx="{point.x:.1f}" cy="{point.y:.1f}" r="8"/>'
        for point, weight in (() if atoms is None else zip(points, atoms, strict=True))
        if weight >= STABLE
    ]
    paths = [_path(match, atom_weights, bond_weights) for match in _PATH.findall(drawer.GetDrawingText())]
    return _element(smiles, f"<g>{''.join(shade)}</g>{''.join(paths)}", _WIDTH, _HEIGHT)


@cache
def draw_piece(smiles: str) -> str:
    """A substructure as an `svg` element without weights; empty where it cannot be drawn.

    An aromatic carbon that it is bound to is written Ar, so that a phenol is told from an alcohol.
    """
    molecule = parse(smiles)
    if molecule is None:
        molecule = rdkit().MolFromSmiles(smiles, sanitize=False)
        rdkit().FastFindRings(molecule)
        for atom in molecule.GetAtoms():
            if atom.GetIsAromatic() and atom.GetSymbol() == "C" and not atom.IsInRing():
                atom.SetProp("atomLabel", "Ar")
    try:
        drawer = _draw(molecule, 150, 96, black=True)
    except (ValueError, RuntimeError):
        return ""
    paths = [_path(match, (), ()) for match in _PATH.findall(drawer.GetDrawingText())]
    return _element(smiles, "".join(paths), 150, 96)


def _draw(molecule: Any, width: int = _WIDTH, height: int = _HEIGHT, black: bool = False) -> Any:
    """RDKit's finished drawing, in its colours of elements or in black; kekulized where that is possible."""
    from rdkit.Chem.Draw import rdMolDraw2D

    for kekulize in (True, False):
        drawer = rdMolDraw2D.MolDraw2DSVG(width, height)
        options: Any = drawer.drawOptions()
        options.bondLineWidth, options.padding, options.maxFontSize = 1, 0.08, 14
        if black:
            options.useBWAtomPalette()
        try:
            rdMolDraw2D.PrepareAndDrawMolecule(drawer, molecule, kekulize=kekulize)
            break
        except ValueError:
            if not kekulize:
                raise
    drawer.FinishDrawing()
    return drawer


def _xy(point: Any) -> str:
    return f"{point.x:.1f},{point.y:.1f}"


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
