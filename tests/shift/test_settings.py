import pytest

from outland.errors import OutlandError
from outland.shift import ShiftSettings


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [({"epsilon": -1.0}, "epsilon must be at least 0"), ({"features": 9}, "features must be from 1 to 8")],
)
def test_settings_out_of_range(settings, sentence):
    with pytest.raises(OutlandError, match=sentence):
        ShiftSettings(**settings)
