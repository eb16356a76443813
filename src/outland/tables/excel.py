"""The first sheet of an Excel workbook; openpyxl reads and writes it, where it is installed."""

import re
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from outland.errors import OutlandError

_MAX_UNPACKED = 1 << 28  # bytes of a workbook, which is a zip file of XML
_MAX_ROWS = 1 << 20  # of a sheet, as in Excel
_MAX_CELLS = 1 << 24  # of a sheet, with those that are blank before others: more than such a file has room for
_NUMBER = re.compile(r"-?(0|[1-9]\d{0,14})(\.\d{1,14})?([eE][+-]?\d{1,3})?")
_FORBIDDEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
_MAX_TEXT = 32_767  # characters of a cell in Excel


def openpyxl() -> Any:
    """The module, or a sentence where it is not installed."""
    try:
        import openpyxl
    except ImportError:
        raise OutlandError(
            "Excel tables need openpyxl: pip install 'outland[excel]', or save the sheet as CSV"
        ) from None
    return openpyxl


def records(path: Path) -> Iterator[list[str]]:
    """The header, then the rows; blank rows are skipped."""
    with _opened(path) as sheet:
        sheet.reset_dimensions()  # the file may say that it is smaller, and what is beyond would be left out
        seen = 0
        for number, cells in enumerate(sheet.iter_rows(values_only=True), 1):
            seen += len(cells)
            if number > _MAX_ROWS or seen > _MAX_CELLS:
                raise OutlandError(f"{path} has rows or columns too far from the others: save the sheet as CSV")
            texts = [_text(value) for value in cells]
            while texts and not texts[-1]:
                texts.pop()
            if texts:
                yield texts


def _text(value: Any) -> str:
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))  # Excel knows no whole numbers
    return "" if value is None else str(value)


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    module = openpyxl()
    book = None
    try:
        with zipfile.ZipFile(path) as archive:
            if (size := sum(entry.file_size for entry in archive.infolist())) > _MAX_UNPACKED:
                raise OutlandError(f"{path} takes {size:,} bytes unpacked, too many for a workbook: save it as CSV")
        book = module.load_workbook(path, read_only=True, data_only=True, keep_links=False)
        yield book.worksheets[0]
    except OutlandError:
        raise
    except Exception as problem:  # whatever openpyxl meets in a damaged file
        raise OutlandError(f"{path} cannot be read as an Excel workbook: {str(problem)[:200] or problem!r}") from None
    finally:
        if book is not None:
            book.close()


class ExcelWriter:
    """Writes rows to a new workbook: numbers as numbers, any other text as text, never as a formula."""

    def __init__(self, path: Path, names: list[str]) -> None:
        self.path = path
        self.book = openpyxl().Workbook(write_only=True)
        self.sheet = self.book.create_sheet("outland")
        self.writerow(names)

    def writerow(self, cells: list[str]) -> None:
        """Write one row."""
        from openpyxl.cell import WriteOnlyCell

        row = []
        for text in cells:
            cell = WriteOnlyCell(self.sheet, None)
            if _NUMBER.fullmatch(text):
                cell.value = float(text)
            elif text:
                cell.value = "text"
                cell._value, cell.data_type = _FORBIDDEN.sub("\N{REPLACEMENT CHARACTER}", text)[:_MAX_TEXT], "s"
            row.append(cell)
        self.sheet.append(row)

    def close(self) -> None:
        """Write the file."""
        self.book.save(self.path)
