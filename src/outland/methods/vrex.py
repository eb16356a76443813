"""Risk extrapolation: the same risk in every environment."""

from outland.graphs import GraphBatch
from outland.methods.base import Progress, Terms
from outland.methods.erm import ERM
from outland.methods.parts.environments import PenaltySettings, environment_risks, variance_over
from outland.settings import NonNegative, settings


@settings("method")
class VRExSettings(PenaltySettings):
    """Hyper-parameters of VREx.

    Args:
        penalty: weight β of the variance.
        unbiased: divide the variance by the number of environments less one, as GOOD does; else by their number.
    """

    penalty: NonNegative = 10.0
    unbiased: bool = True


class VREx(ERM[VRExSettings]):
    r"""Out-of-Distribution Generalization via Risk Extrapolation (Krueger et al., ICML 2021).

    .. math:: \min_\theta \hat R + \beta\,\mathrm{Var}_s(R_s)

    over the environments in the batch; with fewer than two the variance is 0.
    """

    name = "vrex"
    citation = "Krueger et al., ICML 2021"
    needs_environments = True
    space = {"penalty": (1.0, 10.0, 100.0, 1000.0), "warm_up": (0, 500)}

    def loss(self, batch: GraphBatch, progress: Progress) -> Terms:
        """The mean loss, and the weighted variance of the environments' risks."""
        logits = self.classifier(batch)
        risks, present = environment_risks(logits, batch, self.schema)
        variance = variance_over(risks, present, self.settings.unbiased)
        return {"risk": self.risk(logits, batch), "variance": progress.scalar(self.settings.weight) * variance}
