"""`outland list`."""

import pytest


@pytest.mark.parametrize(
    ("what", "words"),
    [
        ("datasets", ["motif", "base, size"]),
        ("methods", ["aia", "rdia", "NeurIPS"]),
        ("backbones", ["gcnii"]),
        ("settings", ["train.burn_in", "share of the epochs", "method.gamma (aia)"]),
    ],
)
def test_lists(outland, what, words):
    done = outland("list", what)
    assert done.returncode == 0
    assert all(word in done.stdout for word in words)


def test_settings_of_one_method_and_of_one_group(outland):
    done = outland("list", "settings", "gsat:mnist")
    assert "method.interval" in done.stdout
    assert "train.epochs" not in done.stdout
    shown = outland("list", "settings", "train").stdout
    assert "train.select" in shown
    assert "ood_val" in shown
    assert outland("list", "settings", "gast").returncode == 2
    assert "outland list settings aia" in outland("list", "methods", "aia").stderr


def test_methods_are_listed_with_needs_masks_and_cost(outland):
    cells = [[cell.strip() for cell in line.split("│")] for line in outland("list", "methods").stdout.splitlines()]
    rows = {row[1]: row for row in cells if len(row) > 7 and row[2]}
    assert len(rows) == 23
    assert any(row[1] == "gsat:spurious-motif" for row in cells if len(row) > 7)
    assert [rows[name][4] for name in ("erm", "irm", "groupdro", "vrex", "dir")] == [
        "",
        "needed",
        "needed",
        "needed",
        "",
    ]
    assert [rows[name][5] for name in ("erm", "dir", "gsat", "aia", "flag")] == ["", "yes", "yes", "yes", ""]
    assert rows["erm"][6] == "1.0"
    assert all(float(row[6]) > 0.5 for row in rows.values())
