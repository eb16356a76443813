import pytest

from outland.devices import find_device
from outland.errors import OutlandError


def test_unknown_device():
    with pytest.raises(OutlandError, match="unknown device 'gpu7'"):
        find_device("gpu7")
