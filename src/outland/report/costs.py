"""What methods cost, as it was measured."""

import json
from importlib.resources import files


def method_costs() -> dict[str, float]:
    """Time of an epoch relative to ERM's, by method, from the benchmark of all methods on a cut of Motif."""
    costs: dict[str, float] = json.loads(files("outland.report").joinpath("method-costs.json").read_text())
    return costs
