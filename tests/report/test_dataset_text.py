from outland.graphs import Cache
from outland.report.dataset_text import describe_dataset
from outland.tables import TableSettings
from outland.tables.smiles_table import SmilesTable
from tests.conftest import SAMPLES


def test_description_of_a_table(tmp_path):
    table = SmilesTable(TableSettings(str(SAMPLES / "bbbp.csv"), target="p_np"))
    lines = describe_dataset(table.load("scaffold", "covariate", cache=Cache(tmp_path)))
    text = "\n".join(lines)
    after = lines.index("298 of 300 rows are usable; 2 set aside") + 1
    assert lines[after] == "  2 rows: column 'smiles': RDKit cannot read the SMILES (first: row 60)"
    assert not any(line.startswith("hint") for line in lines)
    assert "task: binary, scored by rocauc" in text
    assert "training environments, by scaffold" in text


def test_labels_of_many_orders_of_magnitude_bring_a_hint(tmp_path):
    smiles = ["C" * number + "O" for number in range(1, 41)]
    for scale, hints in ((10.0, 1), (1.2, 0)):
        path = tmp_path / f"{scale}.csv"
        rows = [f"{text},{0.01 * scale ** (number / 5):.6g}" for number, text in enumerate(smiles)]
        path.write_text("\n".join(["smiles,ic50", *rows]) + "\n")
        table = SmilesTable(TableSettings(str(path), target="ic50"))
        lines = describe_dataset(table.load("random", "covariate", cache=Cache(tmp_path / "cache")))
        assert sum(line.startswith("hint: the labels span many orders of magnitude") for line in lines) == hints
