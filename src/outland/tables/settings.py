"""Which table, and what its columns are."""

from dataclasses import replace
from pathlib import Path
from typing import Literal

from outland.chem.featurizer import ATOMS, CIP_ATOMS
from outland.chem.smiles import has_invalid_utf8
from outland.errors import OutlandError
from outland.graphs import Features
from outland.settings import settings
from outland.storage.files import checksum
from outland.tables.columns import find_smiles_column
from outland.tables.labels import Censored, TaskKind
from outland.tables.reading import require_columns, require_smiles_column


@settings("table")
class TableSettings:
    """Which table, and what its columns are.

    Args:
        file: the table; CSV, TSV, Parquet, SDF, .smi or Excel, gzip'd or not.
        smiles: column of SMILES; if it is not named, the one that can be read as such.
        target: column of labels, or several.
        task: what the labels ask for; `auto` looks at them.
        environment: column of environments.
        split: column that says train, val or test (for the split `column`).
        time: column to order by (for the split `time`): numbers, or dates written year first.
        merge_labels: take labels that mean the same, as `1`, `active` and `TRUE`, for one class.
        censored: what to do with a label such as `>10`: `drop` it, take its `value`, or `ask` by refusing the table.
        strict: refuse the table if any row cannot be used, instead of setting such rows aside.
        chirality: of atoms by `cip` codes, however a SMILES is written, or by `tags`, as it was before.
        sha256: of the file; filled in when it is opened, so that another file is another run.
    """

    file: str
    smiles: str = ""
    target: str | tuple[str, ...] = ()
    task: TaskKind = "auto"
    environment: str | None = None
    split: str | None = None
    time: str | None = None
    merge_labels: bool = False
    censored: Censored = "ask"
    strict: bool = False
    chirality: Literal["cip", "tags"] = "cip"
    sha256: str | None = None

    @property
    def targets(self) -> list[str]:
        """The target columns."""
        return [self.target] if isinstance(self.target, str) else list(self.target)

    @property
    def atoms(self) -> Features:
        """The features of atoms."""
        return CIP_ATOMS if self.chirality == "cip" else ATOMS

    def opened(self) -> "TableSettings":
        """A copy with the file's checksum; refuse a file that is no table or lacks a column."""
        path = Path(self.file)
        if has_invalid_utf8(str(path)):
            raise OutlandError(f"the name of the table {path} is not in UTF-8: rename it, or a folder that it is in")
        if not any(self.targets):
            raise OutlandError("which column holds the labels? Name it with --target")
        others = [name for name in (*self.targets, self.environment, self.split, self.time) if name]
        require_columns(path, others)
        smiles = self.smiles or find_smiles_column(path, others)
        if smiles in self.targets:
            raise OutlandError(f"the column '{smiles}' cannot be both SMILES and target")
        require_smiles_column(path, smiles)
        return replace(self, smiles=smiles, target=tuple(dict.fromkeys(self.targets)), sha256=checksum(path))

    @property
    def columns(self) -> list[str]:
        """The columns that are read."""
        return [name for name in (self.smiles, *self.targets, self.environment, self.split, self.time) if name]
