import dataclasses

import pytest
import torch

from outland.errors import OutlandError
from outland.methods import METHODS, find_method
from outland.training.callbacks import Callback
from outland.training.checkpoint import Checkpoints
from outland.training.evaluate import predict
from outland.training.trainer import Diverged
from tests.training.cases import StopsAfter, trainer


class Recorder(Callback):
    """Keeps what is predicted after each epoch."""

    def __init__(self, kept):
        self.kept = kept

    def on_evaluation_end(self, epoch, logits):
        self.kept.append(logits.clone())


VARIANTS = [f"{name}:{preset}" for name in METHODS for preset in find_method(name).presets] + list(METHODS)


@pytest.mark.parametrize("name", VARIANTS)
def test_every_variant_trains_on_graphs_of_every_kind(any_splits, name):
    run = trainer(any_splits, name)
    run.fit()
    assert len(run.curves) == 3
    assert all(torch.isfinite(torch.tensor(list(row["loss"].values()))).all() for row in run.curves)
    assert set(run.curves[0]) == {"epoch", "loss", "diagnostics", "val", "test"}
    expected = {"ood-gnn": ["effective_sample_size"], "stablegnn": ["effective_sample_size"], "cal": ["stable_share"]}
    expected |= {"prune": ["kept"], "imold": ["codes_used"]}
    assert list(run.curves[0]["diagnostics"]) == expected.get(name.split(":")[0], [])
    assert all(0 < share <= 1 for share in run.curves[0]["diagnostics"].values())


@pytest.mark.parametrize("name", ["erm", "aia", "aia:rdia", "aia:paper"])
def test_one_seed_decides_everything(any_splits, name):
    first, again, other = (trainer(any_splits, name, seed) for seed in (1, 1, 2))
    for run in (first, again, other):
        run.fit()
    assert first.curves == again.curves
    assert first.curves != other.curves
    weights = again.method.state_dict()
    for name, value in first.method.state_dict().items():
        assert torch.equal(value, weights[name])


@pytest.mark.parametrize("name", ["erm", "aia", "aia:rdia", "aia:paper"])
@pytest.mark.parametrize("stop", [1, 2])
def test_resumed_run_equals_the_uninterrupted_one(any_splits, tmp_path, name, stop):
    whole = trainer(any_splits, name)
    whole.fit()
    half = trainer(any_splits, name, checkpoints=Checkpoints(tmp_path))
    half.callback = StopsAfter(stop)
    with pytest.raises(KeyboardInterrupt):
        half.fit()
    resumed = trainer(any_splits, name, checkpoints=Checkpoints(tmp_path))
    torch.rand(17)  # nothing that happened before may matter
    assert resumed.resume() == stop
    resumed.fit()
    assert resumed.curves == whole.curves
    for one, other in ((whole.method, resumed.method), (whole.stepper, resumed.stepper)):
        theirs = other.state_dict()
        for key, value in one.state_dict().items():
            assert torch.equal(value, theirs[key]), key


def test_nan_loss_stops_the_run_with_step_term_and_last_checkpoint(any_splits, tmp_path):
    run = trainer(any_splits, checkpoints=Checkpoints(tmp_path))
    steps = len(run.batches)
    honest = run.stepper.optimizers[1].phase

    def poisoned(batch, progress):
        terms = honest.loss(batch, progress)
        if progress.step == steps + 1:
            terms["distance"] = terms["distance"] * float("nan")
        return terms

    run.stepper.optimizers[1].phase = dataclasses.replace(honest, loss=poisoned)
    with pytest.raises(
        Diverged, match=rf"adversarial.distance became NaN or infinite at step {steps + 1}.*epoch-00001"
    ):
        run.fit()
    assert [path.name for path in tmp_path.iterdir()] == ["epoch-00001"]


def test_gradient_that_is_not_finite_is_never_saved(any_splits, tmp_path):
    """The last loss of an epoch is fine and its gradient is not."""
    run = trainer(any_splits, "erm", checkpoints=Checkpoints(tmp_path))
    last = 2 * len(run.batches) - 1
    honest = run.stepper.optimizers[0].phase

    def poisoned(batch, progress):
        terms = honest.loss(batch, progress)
        if progress.step == last:
            weight = next(run.method.parameters())
            terms["risk"] = terms["risk"] + (weight.sum() * 0).sqrt()
        return terms

    run.stepper.optimizers[0].phase = dataclasses.replace(honest, loss=poisoned)
    with pytest.raises(Diverged, match=rf"of classifier .* at step {last}; the last good checkpoint is .*epoch-00001"):
        run.fit()
    assert [path.name for path in tmp_path.iterdir()] == ["epoch-00001"]


def test_selection_needs_its_part(any_splits):
    with pytest.raises(
        OutlandError, match=r"train.select=id_val needs the part 'id_val', and this data has only train, val"
    ):
        trainer(any_splits, "erm", select="id_val")


def test_resume_on_another_device_starts_its_draws_afresh(any_splits, tmp_path, capsys):
    run = trainer(any_splits, checkpoints=Checkpoints(tmp_path))
    run.callback = StopsAfter(1)
    with pytest.raises(KeyboardInterrupt):
        run.fit()
    snapshot = run.checkpoints.latest()
    snapshot.values["device"] = "cuda"
    run.checkpoints.save(1, snapshot)
    again = trainer(any_splits, checkpoints=Checkpoints(tmp_path))
    assert again.resume() == 1
    assert "a run begun on cuda" in " ".join(capsys.readouterr().err.split())
    again.fit()
    assert len(again.curves) == 3


def test_the_chosen_epoch_is_the_model_that_is_kept(any_splits):
    run = trainer(any_splits, "erm", epochs=6)
    run.fit()
    from outland.training import SelectionRule, evaluate

    picked = SelectionRule("ood_val").pick(run.curves, any_splits.schema.task)
    assert evaluate(run.method, any_splits, 4)["test"] == run.curves[picked]["test"]


def test_training_that_ends_early_is_the_first_part_of_the_whole(any_splits):
    whole, part = trainer(any_splits, "erm", select="last_epoch"), trainer(any_splits, "erm", select="last_epoch")
    part.epochs = 2
    outputs = []
    for run in (whole, part):
        kept = []
        run.callback = Recorder(kept)
        run.fit()
        outputs.append(kept)
    assert (len(whole.curves), len(part.curves)) == (3, 2)
    assert part.curves == whole.curves[:2]
    assert all(torch.equal(ours, theirs) for ours, theirs in zip(outputs[1], outputs[0], strict=False))
    held_out = torch.cat([any_splits["val"], any_splits["test"]])
    assert torch.allclose(outputs[1][-1], predict(part.method, any_splits.graphs, held_out, 4), atol=1e-6)
