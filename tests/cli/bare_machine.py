"""The command line as on a machine without RDKit and other packages; Molbbbp's raw file is the sample of the tests.

The first word is a file for the names of the imported modules, one a line.
"""

import sys
from importlib.machinery import PathFinder
from pathlib import Path

MISSING = ("rdkit", "skimage", "platformdirs", "pooch", "requests", "pyarrow", "pandas", "optuna", "ray", "sklearn")
MISSING += ("matplotlib", "torchmetrics")


class Without(PathFinder):
    """Finds installed modules, except for the missing ones."""

    @classmethod
    def find_spec(cls, name, path=None, target=None):
        return None if name.partition(".")[0] in MISSING else super().find_spec(name, path, target)


if __name__ == "__main__":
    sys.meta_path[sys.meta_path.index(PathFinder)] = Without
    modules = Path(sys.argv.pop(1))

    from outland.cli import main
    from outland.datasets.molecules import Molbbbp
    from tests.cli.cases import SAMPLE

    Molbbbp.raw = SAMPLE
    try:
        main()
    finally:
        modules.write_text("\n".join(sys.modules))
