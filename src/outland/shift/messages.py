"""What a measured shift means, in plain sentences."""

WithNull = tuple[float, float, float]  # a value, its null, and the standard deviation of the null over trials
IDENTICAL = "The two sets are the same graphs: there is no shift between them, and what is measured is chance."


def describe_shift(covariate: WithNull, accuracy: WithNull, correlation: WithNull | None = None, few: str = "") -> str:
    """Which shift there is; `few` names what there is too little of, as in `with 40 graphs a side`, if anything."""
    parts = [_covariate(covariate, accuracy, few)]
    if correlation is not None:
        parts.append(_correlation(correlation, covariate))
    return " ".join(parts)


def _exceeds_null(measure: WithNull, minimum: float) -> bool:
    """Whether a value is above its null by `minimum` and by three standard deviations."""
    value, null, std = measure
    return value - null > max(minimum, 3 * std)


def _covariate(covariate: WithNull, accuracy: WithNull, few: str) -> str:
    gcs, gcs_null, _ = covariate
    correct, correct_null, std = accuracy
    evidence = (
        f"a small network tells {correct:.0%} of unseen graphs apart, and {correct_null:.0%} where sides are random"
    )
    shifted = _exceeds_null(covariate, 0.02)
    separable = _exceeds_null((correct, max(correct_null, 0.5), std), 0.03)
    if shifted and separable:
        size = "a small" if gcs < 0.1 else "a moderate" if gcs < 0.4 else "a large"
        rough = f" {few.capitalize()} that share is rough." if few else ""
        return (
            f"There is {size} covariate shift: about {gcs:.0%} of the graphs lie where the other set has next to "
            f"none ({evidence}).{rough}"
        )
    if shifted:
        doubt = f"{few.capitalize()} there is not enough to tell" if few else "The two measures do not agree on"
        numbers = f"GCS is {gcs:.2f}, and {gcs_null:.2f} by chance"
        return f"{doubt} whether there is a covariate shift: {numbers}, but {evidence}."
    if separable:
        limit = f", as far as can be told {few}" if few else ""
        return (
            "The two sets differ, but each reaches where the other is: some kinds of graphs are more frequent in one "
            f"than in the other, and to the network's eye hardly any lie beyond the other's reach{limit} ({evidence})."
        )
    unseen = f" {few.capitalize()} a small one could not be seen." if few else ""
    return f"No covariate shift is to be seen: {evidence}.{unseen}"


def _correlation(correlation: WithNull, covariate: WithNull) -> str:
    value, null, _ = correlation
    if covariate[0] > 0.5:
        return "The sets meet too little for a correlation shift to be judged."
    if _exceeds_null(correlation, 0.05):
        return (
            f"There is a correlation shift: where both sets are, the same graphs have other labels "
            f"({value:.2f}, against {null:.2f} by chance)."
        )
    return f"No correlation shift can be told from chance ({value:.2f}, against {null:.2f} by chance)."
