import torch

from outland.spec import TrainSettings


def test_learning_rate_follows_the_cosine():
    frame = TrainSettings(epochs=4)
    assert [round(frame.lr_factor(epoch), 6) for epoch in range(5)] == [1, 0.853553, 0.5, 0.146447, 0]
    assert TrainSettings(epochs=100, burn_in=0.7).burn_in_epochs() == 70
    assert TrainSettings(schedule="constant").lr_factor(50) == 1


def test_epochs_follow_from_the_samples_of_all_epochs():
    train = TrainSettings(epochs=3, total_samples=40_000)
    assert [train.with_epochs_for(graphs).epochs for graphs in (10, 1000, 1016, 5000, 10**6)] == [40, 40, 39, 8, 4]
    assert train.with_epochs_for(5000).total_samples is None
    assert TrainSettings(epochs=3).with_epochs_for(10) == TrainSettings(epochs=3)
    assert TrainSettings(epochs=3, total_samples=None).with_epochs_for(10**9).epochs == 3


def test_scoring_batches_are_small_on_a_cpu():
    cpu, cuda = torch.device("cpu"), torch.device("cuda")
    assert [TrainSettings().scoring_batch(device) for device in (cpu, cuda)] == [64, 2048]
    assert TrainSettings(eval_batch_size=9).scoring_batch(cuda) == 9
