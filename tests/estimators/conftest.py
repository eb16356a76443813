import pytest

from outland.estimators import GraphClassifier
from tests.estimators.cases import SMALL, bbbp


@pytest.fixture(scope="session")
def fitted() -> GraphClassifier:
    """A small AIA on the BBBP sample."""
    return GraphClassifier("aia", epochs=6, backbone=SMALL, settings={"lr": 0.01}).fit(*bbbp())


@pytest.fixture(scope="session")
def model_folder(fitted, tmp_path_factory):
    return fitted.save(tmp_path_factory.mktemp("models") / "bbbp")
