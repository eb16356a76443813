"""Tables written row by row, in the format that their name ends in: whole or absent."""

import csv
import glob
import gzip
import re
import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, cast

from outland.chem.featurizer import rdkit
from outland.chem.limits import text_problem
from outland.errors import CannotWrite, OutlandError
from outland.storage.files import remove_scratch, scratch_path, writable_folder
from outland.storage.locks import locked
from outland.tables.excel import ExcelWriter
from outland.tables.formats import is_gzipped, table_format
from outland.tables.reading import Cells

STANDARD = Path("-")  # standard output
_BATCH = 1024  # rows of a Parquet file that are written at once
_FORMULA = re.compile(r"[=+\-@\t\r]")
_NUMBER = re.compile(r"[+-]?[\d.]+([eE][+-]?\d+)?")
_MOST_DRAWN = 200  # atoms of a molecule that gets coordinates

Write = Callable[[Cells], None]


def check_out(out: Path, force: bool, source: Path | None = None, option: str = "--out") -> None:
    """Refuse a file that a table cannot be written to."""
    if out == STANDARD:
        return
    if table_format(out) in ("parquet", "excel") and is_gzipped(out):
        raise OutlandError(f"{out.name}: Parquet and Excel files are compressed already, write them without .gz")
    if len(out.name.encode("utf-8", "surrogateescape")) > 200:
        raise OutlandError(f"the name {out.name[:40]}... is too long for a file: choose another {option}")
    same = out.exists() and source is not None and source.exists() and out.samefile(source)
    if out.exists() and (same or not force):
        hint = f"choose another {option}" if same else f"choose another {option}, or replace it with --force"
        raise OutlandError(f"{out} exists: {hint}")
    if out.exists() and not out.is_file():
        raise OutlandError(f"{out} is no file that can be replaced: choose another {option}, or - for standard output")


@contextmanager
def written_table(
    out: Path, names: list[str], smiles: str = "", safe: bool = False, numbers: Collection[str] = ()
) -> Iterator[Write]:
    """Yield a function that writes a row; the file is there once the block has ended well.

    Args:
        out: the file, or `-` for CSV on standard output.
        names: its columns, in order.
        smiles: the column of molecules, which SDF and .smi files need.
        safe: whether to put an apostrophe before a CSV cell that a spreadsheet would take for a formula.
        numbers: columns that hold numbers or nothing, which Parquet keeps as such; the others are text.
    """
    if out == STANDARD:
        stream = sys.stdout
        stream.reconfigure(errors="surrogateescape", newline="")  # type: ignore[union-attr]
        write = _delimited(stream, names, ",", safe)
        try:
            yield write
            stream.flush()
        except BrokenPipeError:
            raise CannotWrite("standard output was closed before all rows were written") from None
        return
    with _replaced(out) as scratch, _writer(scratch, out, names, smiles, safe, numbers) as write:
        yield write


@contextmanager
def _replaced(out: Path) -> Iterator[Path]:
    """A scratch file that becomes `out` once the block has ended well; one process at a time."""
    writable_folder(out.parent)
    lock, scratch = out.with_name(f".{out.name}.lock"), scratch_path(out)
    try:
        with locked(lock, timeout=0, busy=f"another process is writing {out}: choose another --out, or wait for it"):
            try:
                remove_scratch(out.parent, glob.escape(out.name))
                yield scratch
                scratch.replace(out)
            finally:
                scratch.unlink(missing_ok=True)
                lock.unlink(missing_ok=True)
    except OSError as problem:
        raise CannotWrite(f"cannot write {out}: {problem.strerror or problem}") from None


@contextmanager
def _writer(
    scratch: Path, out: Path, names: list[str], smiles: str, safe: bool, numbers: Collection[str]
) -> Iterator[Write]:
    kind = table_format(out)
    if kind == "parquet":
        with _parquet(scratch, names, numbers) as write:
            yield write
    elif kind == "excel":
        book = ExcelWriter(scratch, names)
        yield lambda cells: book.writerow([cells.get(name, "") for name in names])
        book.close()
    else:
        text: dict[str, Any] = {"encoding": "utf-8", "errors": "surrogateescape", "newline": ""}
        with cast(IO[str], (gzip.open if is_gzipped(out) else open)(scratch, "xt", **text)) as stream:
            if kind == "sdf":
                yield _sdf(stream, names, smiles)
            elif kind == "smi":
                yield _smi(stream, [smiles, *(name for name in names if name != smiles)])
            else:
                is_tsv = Path(out.name.removesuffix(".gz")).suffix.lower() in (".tsv", ".tab")
                yield _delimited(stream, names, "\t" if is_tsv else ",", safe)


def _smi(stream: IO[str], names: list[str]) -> Write:
    """SMILES and the other cells between tabs, nothing quoted, under a line of names."""

    def write(cells: Sequence[str]) -> None:
        stream.write("\t".join(re.sub(r"[\t\r\n]+", " ", cell) for cell in cells) + "\n")

    write(["smiles", *names[1:]])
    return lambda cells: write([cells.get(name, "") for name in names])


def _delimited(stream: IO[str], names: list[str], separator: str, safe: bool) -> Write:
    """CSV or TSV. Bytes that are not UTF-8 go out as they came in."""
    writer = csv.writer(stream, delimiter=separator)

    def write(cells: Sequence[str]) -> None:
        writer.writerow([without_formula(cell) for cell in cells] if safe else cells)

    write(names)
    return lambda cells: write([cells.get(name, "") for name in names])


def without_formula(cell: str) -> str:
    """A cell that no spreadsheet takes for a formula: with an apostrophe before it, if it begins as one."""
    return f"'{cell}" if _FORMULA.match(cell) and not _NUMBER.fullmatch(cell) else cell


@contextmanager
def _parquet(path: Path, names: list[str], numbers: Collection[str]) -> Iterator[Write]:
    """Parquet, a batch at a time; `numbers` are columns of numbers, the others hold text."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise OutlandError("Parquet tables need pyarrow: pip install 'outland[molecules]'") from None
    kinds = {name: pyarrow.float64() if name in numbers else pyarrow.string() for name in names}
    schema = pyarrow.schema(list(kinds.items()))
    rows: list[Cells] = []
    with pyarrow.parquet.ParquetWriter(path, schema) as file:

        def flush() -> None:
            texts = {name: [_utf8(row.get(name, "")) for row in rows] for name in names}
            columns = [
                [float(text) if text else None for text in texts[name]] if name in numbers else texts[name]
                for name in names
            ]
            file.write_table(pyarrow.table(columns, schema=schema))
            rows.clear()

        def write(cells: Cells) -> None:
            rows.append(cells)
            if len(rows) >= _BATCH:
                flush()

        yield write
        flush()


def _utf8(cell: str) -> str | None:
    """The text of a cell, with bytes that are not UTF-8 replaced; None for an empty one."""
    return cell.encode("utf-8", "surrogateescape").decode("utf-8", "replace") if cell else None


def _sdf(stream: IO[str], names: list[str], smiles: str) -> Write:
    """SDF: the block that a molecule was read from or one made from its SMILES, and every other cell as a property."""

    def write(cells: Cells) -> None:
        text = cells.get(smiles, "")
        block = getattr(text, "block", "") or _block(text, cells.get("name", ""))
        stream.write(block if block.endswith("\n") else f"{block}\n")
        for name in names:
            value = re.sub(r"[\r\n]+", " ", cells.get(name, "")).strip()
            if value and name != smiles:
                label = re.sub(r"[<>\r\n]", "_", name)
                stream.write(f">  <{label}>\n{value}\n\n")
        stream.write("$$$$\n")

    return write


def _block(smiles: str, name: str) -> str:
    """A molecule's block with coordinates to draw it by; an empty one where the SMILES cannot be read."""
    chem, smiles = rdkit(), _utf8(smiles) or ""
    molecule = None if not smiles or text_problem(smiles) else chem.MolFromSmiles(smiles)
    molecule = chem.Mol() if molecule is None else molecule
    if 0 < molecule.GetNumAtoms() <= _MOST_DRAWN:
        from rdkit.Chem.rdDepictor import Compute2DCoords

        chem.FindPotentialStereoBonds(molecule)  # else coordinates would say cis or trans where nobody has
        Compute2DCoords(molecule)
    molecule.SetProp("_Name", re.sub(r"\s+", " ", _utf8(name) or ""))
    block = chem.MolToMolBlock(molecule, kekulize=True, forceV3000=molecule.GetNumAtoms() > 999)
    return str(block)
