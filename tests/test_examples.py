"""The notebook in `examples/` runs, and is committed with what it printed."""

import json
import shutil
import sys
import warnings
from pathlib import Path
from types import ModuleType

import matplotlib as mpl
import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"
NOTEBOOK = EXAMPLES / "molecules.ipynb"


def code_cells() -> list[dict]:
    return [cell for cell in json.loads(NOTEBOOK.read_text())["cells"] if cell["cell_type"] == "code"]


def printed(cell: dict, name: str = "stdout") -> str:
    return "".join("".join(output["text"]) for output in cell["outputs"] if output.get("name") == name)


@pytest.mark.filterwarnings("ignore::outland.estimators.UnusedRowsWarning")
def test_the_notebook_runs(tmp_path, monkeypatch, capsys):
    notebook, shown = ModuleType("IPython"), ModuleType("IPython.display")  # Jupyter need not be installed
    drawings: list[str] = []
    notebook.get_ipython, notebook.version_info = lambda: None, (9, 0)  # matplotlib asks
    shown.SVG, shown.display = str, drawings.append
    for module in (notebook, shown):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setattr(warnings, "formatwarning", warnings.formatwarning)  # which the notebook changes
    mpl.use("Agg")
    shutil.copy(EXAMPLES / "bbbp.csv", tmp_path)
    monkeypatch.chdir(tmp_path)
    namespace: dict = {"__name__": "__main__"}
    for number, cell in enumerate(code_cells()):
        exec(compile("".join(cell["source"]), f"{NOTEBOOK.name}, cell {number}", "exec"), namespace)
    assert capsys.readouterr().out.splitlines()[0] == printed(code_cells()[0]).strip()
    assert [drawing.count("<svg") for drawing in drawings] == [1, 1]
    assert namespace["model"].n_iter_ == 30
    assert 0.5 < namespace["scores"].mean() < 1


def test_the_notebook_is_committed_with_its_outputs():
    cells = code_cells()
    assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1))
    kinds = {output["output_type"] for cell in cells for output in cell["outputs"]}
    assert "error" not in kinds
    assert {"stream", "display_data", "execute_result"} <= kinds
    assert "rows cannot be read" in printed(cells[1], "stderr")
    assert "nan" in printed(cells[2])
