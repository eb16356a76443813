"""What a measured shift means, in plain words."""

Triple = tuple[float, float, float]  # a value, its null, and the null's spread over trials


def verdict(covariate: Triple, accuracy: Triple, correlation: Triple | None = None) -> str:
    """Which shift there is."""
    parts = [_covariate(covariate, accuracy)]
    if correlation is not None:
        parts.append(_correlation(correlation, covariate))
    return " ".join(parts)


def _beyond(triple: Triple, least: float) -> bool:
    """Whether a value is above its null by more than chance and by more than matters."""
    value, null, spread = triple
    return value - null > max(least, 3 * spread)


def _covariate(covariate: Triple, accuracy: Triple) -> str:
    value = covariate[0]
    told = (
        f"a small network tells {accuracy[0]:.0%} of unseen graphs apart, and {accuracy[1]:.0%} where sides are random"
    )
    if _beyond(covariate, 0.02):
        size = "a small" if value < 0.1 else "a moderate" if value < 0.4 else "a large"
        return (
            f"There is {size} covariate shift: about {value:.0%} of the graphs lie where the other set has next to "
            f"none ({told})."
        )
    if _beyond(accuracy, 0.03):
        return (
            "The two sets differ, but each reaches where the other is: some kinds of graphs are more frequent in one "
            f"than in the other, and hardly any are new ({told})."
        )
    return f"No covariate shift is to be seen: {told}."


def _correlation(correlation: Triple, covariate: Triple) -> str:
    value, null, _ = correlation
    if covariate[0] > 0.5:
        return "The sets meet too little for a correlation shift to be judged."
    if _beyond(correlation, 0.05):
        return (
            f"There is a correlation shift: where both sets are, the same graphs have other labels "
            f"({value:.2f}, against {null:.2f} by chance)."
        )
    return f"No correlation shift can be told from chance ({value:.2f}, against {null:.2f} by chance)."
