"""Commands in turn, as on a machine without RDKit and other packages; Molbbbp's raw file is the sample of the tests.

The first word is a folder: `modules` in it gets the names of the imported modules, one a line, and `done.json` what
became of each command. The second word is the commands, as a JSON list of lists of words.
"""

import json
import sys
from contextlib import redirect_stderr, redirect_stdout
from importlib.machinery import PathFinder
from io import StringIO
from pathlib import Path

MISSING = ("rdkit", "skimage", "platformdirs", "pooch", "requests", "pyarrow", "pandas", "optuna", "ray", "sklearn")
MISSING += ("matplotlib", "torchmetrics")


class Without(PathFinder):
    """Finds installed modules, except for the missing ones."""

    @classmethod
    def find_spec(cls, name, path=None, target=None):
        return None if name.partition(".")[0] in MISSING else super().find_spec(name, path, target)


def call(words: list[str]) -> dict[str, object]:
    """Exit status, output and errors of a command."""
    from outland.cli import main

    sys.argv, status = ["outland", *words], 0
    with redirect_stdout(StringIO()) as output, redirect_stderr(StringIO()) as errors:
        try:
            main()
        except SystemExit as end:
            status = end.code or 0
    return {"returncode": status, "stdout": output.getvalue(), "stderr": errors.getvalue()}


if __name__ == "__main__":
    sys.meta_path[sys.meta_path.index(PathFinder)] = Without
    folder, commands = Path(sys.argv[1]), json.loads(sys.argv[2])

    from outland.datasets.molecules import Molbbbp
    from tests.cli.cases import SAMPLE

    Molbbbp.raw = SAMPLE
    (folder / "done.json").write_text(json.dumps([call(words) for words in commands]))
    (folder / "modules").write_text("\n".join(sys.modules))
