"""Files of molecules as tables: SDF (a molecule's block and its properties) and .smi (SMILES and a name a line)."""

import re
from collections.abc import Iterator
from pathlib import Path

from outland.chem.smiles import read_block
from outland.errors import OutlandError
from outland.tables.delimited import Lines, bounded_line, open_text
from outland.tables.formats import MAX_CELL, MAX_COLUMNS

SMILES_NAMES = ("smiles", "canonical_smiles", "isomeric_smiles", "smi", "mol", "structure", "molecule", "compound")
_PROPERTY = re.compile(r">.*?<([^<>]+)>")


def sdf_header(path: Path) -> list[str]:
    """The columns of an SDF file: the structure, the first line of its block, and every property in the file."""
    names = dict[str, None]()
    for _, properties in _sdf_records(path):
        names |= dict.fromkeys(properties)
        if len(names) > MAX_COLUMNS:
            raise OutlandError(f"{path} has more than {MAX_COLUMNS:,} properties: leave some out")
    lower = {name.lower() for name in names}
    return ["structure" if "smiles" in lower else "smiles", *([] if "name" in lower else ["name"]), *names]


def sdf_rows(path: Path, header: list[str]) -> Iterator[list[str]]:
    """The cells of each molecule under a header of `sdf_header`."""
    for block, properties in _sdf_records(path):
        cells = {header[0]: read_block(block), "name": block.partition("\n")[0].strip(), **properties}
        yield [cells.get(name, "") for name in header]


def _sdf_records(path: Path) -> Iterator[tuple[str, dict[str, str]]]:
    """Block and properties of each molecule; a record without its end `$$$$` is one, too, unless it is blank."""
    with open_text(path) as stream:
        lines, size, number = list[str](), 0, 0
        while line := bounded_line(path, stream, number + 1):
            number += 1
            if line.rstrip() == "$$$$":
                yield _split(lines)
                lines, size = [], 0
                continue
            lines.append(line.rstrip("\r\n"))
            size += len(line)
            if size > MAX_CELL:
                raise OutlandError(f"{path}, line {number}: a molecule of more than {MAX_CELL:,} characters")
        if any(line.strip() for line in lines):
            yield _split(lines)


def _split(lines: list[str]) -> tuple[str, dict[str, str]]:
    """The block of a molecule, up to `M  END`, and the properties after it, each until a blank line."""
    end = next((number for number, line in enumerate(lines) if line.startswith("M  END")), len(lines) - 1)
    properties, name = dict[str, list[str]](), None
    for line in lines[end + 1 :]:
        if name is None and (match := _PROPERTY.match(line)):
            name = match.group(1).strip()
            properties[name] = []
        elif not line.strip():
            name = None
        elif name is not None:
            properties[name].append(line)
    return "\n".join([*lines[: end + 1], ""]), {name: "\n".join(texts) for name, texts in properties.items()}


def smi_header(path: Path) -> list[str]:
    """The columns of a .smi file: those its first line names, where it begins with `smiles`, else SMILES and name."""
    with open_text(path) as stream:
        words = re.split(r"\t" if "\t" in (line := bounded_line(path, stream).strip("\r\n")) else r"\s+", line.strip())
    return words if words[0].lower() in SMILES_NAMES else ["smiles", "name"]


def smi_rows(path: Path, header: list[str]) -> Iterator[list[str]]:
    """SMILES and the rest of each line; where a header names more columns, they stand between tabs."""
    with open_text(path) as stream:
        for number, line in enumerate(lines := Lines(path, stream), 1):
            lines.begin()
            cells = line.strip("\r\n").split("\t") if len(header) > 2 else line.split(maxsplit=1)
            if number == 1 and cells and cells[0].strip().lower() in SMILES_NAMES:
                continue
            if any(cells):
                yield [cell.strip() for cell in cells]
