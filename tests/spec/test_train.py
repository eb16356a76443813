from outland.training import TrainSettings


def test_learning_rate_follows_the_cosine():
    frame = TrainSettings(epochs=4)
    assert [round(frame.lr_factor(epoch), 6) for epoch in range(5)] == [1, 0.853553, 0.5, 0.146447, 0]
    assert TrainSettings(epochs=100, burn_in=0.7).burn_in_epochs() == 70
    assert TrainSettings(schedule="constant").lr_factor(50) == 1
