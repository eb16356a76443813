import dataclasses

import pytest
import torch

from outland.errors import OutlandError
from outland.methods import METHODS, build_method, find_method, method_settings
from outland.nn import BackboneSettings
from outland.training import Trainer, TrainSettings
from outland.training.callbacks import Callback
from outland.training.checkpoint import Checkpoints
from outland.training.trainer import Diverged

TINY = BackboneSettings(width=8, layers=3, dropout=0.3)
FRAME = TrainSettings(epochs=3, batch_size=5, eval_batch_size=4)
VARIANTS = [f"{name}:{preset}" for name in METHODS for preset in find_method(name).presets] + list(METHODS)


class StopsAfter(Callback):
    """Ctrl-C at the end of an epoch, before its checkpoint is written."""

    def __init__(self, epochs):
        self.epochs = epochs

    def epoch(self, row, metric):
        if row["epoch"] == self.epochs:
            raise KeyboardInterrupt


def trainer(splits, name="aia", seed=0, checkpoints=None, **frame):
    torch.manual_seed(seed)
    method = build_method(name, splits.schema, TINY, method_settings(name, {}))
    return Trainer(method, splits, dataclasses.replace(FRAME, **frame), seed, checkpoints)


@pytest.mark.parametrize("name", VARIANTS)
def test_every_variant_trains_on_graphs_of_every_kind(any_splits, name):
    run = trainer(any_splits, name)
    run.fit()
    assert len(run.curves) == 3
    assert all(torch.isfinite(torch.tensor(list(row["loss"].values()))).all() for row in run.curves)
    assert set(run.curves[0]) == {"epoch", "loss", "watch", "val", "test"}
    told = {"ood-gnn": ["effective_sample_size"], "stablegnn": ["effective_sample_size"], "cal": ["stable_share"]}
    assert list(run.curves[0]["watch"]) == told.get(name.split(":")[0], [])
    assert all(0 < share <= 1 for share in run.curves[0]["watch"].values())


@pytest.mark.parametrize("name", ["erm", "aia", "aia:rdia", "aia:paper"])
def test_one_seed_decides_everything(any_splits, name):
    first, again, other = (trainer(any_splits, name, seed) for seed in (1, 1, 2))
    for run in (first, again, other):
        run.fit()
    assert first.curves == again.curves
    assert first.curves != other.curves
    for name, value in first.method.state_dict().items():
        assert torch.equal(value, again.method.state_dict()[name])


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
    for key, value in whole.method.state_dict().items():
        assert torch.equal(value, resumed.method.state_dict()[key]), key
    for key, value in whole.stepper.state().items():
        assert torch.equal(value, resumed.stepper.state()[key]), key


@pytest.mark.parametrize("file", ["tensors.safetensors", "state.json"])
@pytest.mark.parametrize("damage", ["cut", "flip"])
def test_resume_falls_back_to_the_previous_good_checkpoint(any_splits, tmp_path, file, damage, capsys):
    run = trainer(any_splits, checkpoints=Checkpoints(tmp_path))
    run.fit()
    newest = tmp_path / "epoch-00003" / file
    content = bytearray(newest.read_bytes())
    if damage == "cut":
        content = content[:-30]
    else:
        content[len(content) // 2] ^= 1
    newest.write_bytes(content)
    again = trainer(any_splits, checkpoints=Checkpoints(tmp_path))
    assert again.resume() == 2
    assert "looking for the one before" in " ".join(capsys.readouterr().err.split())
    again.fit()
    assert again.curves == run.curves


def test_checkpoints_keep_the_two_newest_and_none_intact_is_an_error(any_splits, tmp_path):
    run = trainer(any_splits, checkpoints=Checkpoints(tmp_path))
    run.fit()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["epoch-00002", "epoch-00003"]
    for path in tmp_path.glob("*/state.json"):
        path.write_text("{}")
    with pytest.raises(Exception, match=r"no checkpoint in .* is intact"):
        trainer(any_splits, checkpoints=Checkpoints(tmp_path)).resume()


def test_nan_loss_stops_the_run_with_step_term_and_last_checkpoint(any_splits, tmp_path):
    run = trainer(any_splits, checkpoints=Checkpoints(tmp_path))
    steps = len(run.batches)
    honest = run.stepper.movers[1].phase

    def poisoned(batch, progress):
        terms = honest.loss(batch, progress)
        if progress.step == steps + 1:
            terms["distance"] = terms["distance"] * float("nan")
        return terms

    run.stepper.movers[1].phase = dataclasses.replace(honest, loss=poisoned)
    with pytest.raises(
        Diverged, match=rf"adversarial.distance became NaN or infinite at step {steps + 1}.*epoch-00001"
    ):
        run.fit()
    assert [path.name for path in tmp_path.iterdir()] == ["epoch-00001"]


def test_gradient_that_is_not_finite_is_never_saved(any_splits, tmp_path):
    """The last loss of an epoch is fine and its gradient is not."""
    run = trainer(any_splits, "erm", checkpoints=Checkpoints(tmp_path))
    last = 2 * len(run.batches) - 1
    honest = run.stepper.movers[0].phase

    def poisoned(batch, progress):
        terms = honest.loss(batch, progress)
        if progress.step == last:
            weight = next(run.method.parameters())
            terms["risk"] = terms["risk"] + (weight.sum() * 0).sqrt()
        return terms

    run.stepper.movers[0].phase = dataclasses.replace(honest, loss=poisoned)
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


def test_a_phase_may_have_its_own_decay_and_schedule(any_splits):
    run = trainer(any_splits, "aia")
    phase = dataclasses.replace(run.stepper.movers[1].phase, weight_decay=0.5, schedule="constant")
    mover = run.stepper._mover(phase)
    assert mover.optimiser.param_groups[0]["weight_decay"] == 0.5
    run.stepper.movers[1] = mover
    run.stepper.start_epoch(2)
    rates = [mover.optimiser.param_groups[0]["lr"] for mover in run.stepper.movers]
    assert rates == pytest.approx([1e-3 * 0.25, 5e-3])


def test_the_chosen_epoch_is_the_model_that_is_kept(any_splits):
    run = trainer(any_splits, "erm", epochs=6)
    run.fit()
    from outland.training import OodVal, evaluate

    picked = OodVal().pick(run.curves, any_splits.schema.task)
    assert evaluate(run.method, any_splits, 4)["test"] == run.curves[picked]["test"]


def test_learning_rate_follows_the_cosine():
    frame = TrainSettings(epochs=4)
    assert [round(frame.lr_factor(epoch), 6) for epoch in range(5)] == [1, 0.853553, 0.5, 0.146447, 0]
    assert TrainSettings(epochs=100, burn_in=0.7).burn_in_epochs() == 70
    assert TrainSettings(schedule="constant").lr_factor(50) == 1


def test_phase_that_does_not_run_leaves_its_parameters_alone(any_splits):
    for epochs in (1, 2):
        run = trainer(any_splits, "aia", epochs=epochs)
        phase = run.stepper.movers[1].phase
        run.stepper.movers[1].phase = dataclasses.replace(phase, when=lambda progress: progress.epoch > 0)
        before = {name: value.clone() for name, value in run.method.augmenter.state_dict().items()}
        run.fit()
        assert "adversarial.distance" not in run.curves[0]["loss"]
        if epochs == 1:
            after = run.method.augmenter.state_dict()
            assert all(torch.equal(value, before[name]) for name, value in after.items())
    assert "adversarial.distance" in run.curves[1]["loss"]


@pytest.mark.parametrize("name", ["erm", "aia"])
def test_one_step_lowers_the_loss(motif, name):
    """On a few graphs, for at least 19 of 20 seeds."""
    from outland.graphs import Batches
    from outland.methods import Progress
    from outland.training.stepper import Stepper

    batch = next(iter(Batches(motif.graphs, motif["train"][:8], 8)))
    lowered = 0
    for seed in range(20):
        torch.manual_seed(seed)
        settings = dataclasses.replace(TINY, dropout=0.0)
        method = build_method(name, motif.schema, settings, method_settings(name, {}))
        stepper = Stepper(method, TrainSettings(schedule="constant"))
        first, second = (stepper._gradients(stepper.movers[0], batch, Progress()), None)
        stepper.movers[0].optimiser.step()
        second = stepper._gradients(stepper.movers[0], batch, Progress())
        lowered += sum(second.values()) < sum(first.values())
    assert lowered >= 19
