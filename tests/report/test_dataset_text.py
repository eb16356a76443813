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
    assert "task: binary, scored by rocauc" in text
    assert "training environments, by scaffold" in text
