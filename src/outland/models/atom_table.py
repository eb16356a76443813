"""What explanations say of each atom, as a CSV file."""

from pathlib import Path

from outland.chem.featurizer import parse
from outland.models.explained_rows import Explained
from outland.tables.writing import written_table


def write_atoms(explained: Explained, out: Path) -> int:
    """Write a row for each atom or node: its molecule, index and element, and its contribution or weight; how many."""
    value = "contribution" if explained.show == "contributions" else "weight"
    count = 0
    with written_table(out, ["row", "molecule", "atom", "element", value]) as write:
        for row in explained.rows:
            elements = [""] * len(row.nodes)
            if row.smiles and row.nodes:
                elements = [atom.GetSymbol() for atom in parse(row.smiles.strip()).GetAtoms()]
            for index, (element, number) in enumerate(zip(elements, row.nodes, strict=True)):
                cells = {"row": str(row.row), "molecule": row.smiles, "atom": str(index), "element": element}
                write({**cells, value: f"{number:.6g}"})
            count += len(row.nodes)
    return count
