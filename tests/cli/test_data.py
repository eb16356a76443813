"""`outland data`."""

from tests.conftest import SAMPLES


def test_data_prepare_and_verify(outland):
    done = outland("data", "prepare", "motif", "--domain", "base")
    assert "train 18,000" in done.stdout
    done = outland("data", "verify", "motif", "--domain", "base")
    assert done.returncode == 0
    assert done.stdout.count("as published") == 5


def test_data_show_draws_a_table(outland, tmp_path):
    done = outland("data", "show", str(SAMPLES / "bbbp.csv"), "--target", "p_np")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "bbbp-scaffold.png").stat().st_size > 20000
