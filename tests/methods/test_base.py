import torch

from outland.methods import find_method
from outland.training import Trainer
from tests.cases import FRAME, SMALL


def test_a_parameter_of_the_method_itself_trains_too(any_splits):
    class Scaled(find_method("erm")):
        def __init__(self, *given):
            super().__init__(*given)
            self.scale = torch.nn.Parameter(torch.ones(1))

        def loss(self, batch, progress):
            return {"risk": self.risk(self.scale * self.classifier(batch), batch)}

    method = Scaled(any_splits.schema, SMALL)
    counts = method.parameter_counts()
    assert counts["total"] == counts["classifier"] + 1
    Trainer(method, any_splits, FRAME, 0).fit()
    assert method.scale.item() != 1
