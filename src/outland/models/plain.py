"""The base of what a model folder keeps as validated plain values."""

from pydantic import BaseModel, ConfigDict


class Plain(BaseModel):
    """Plain values, which cannot be changed; names that are not known are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


class Interval(Plain):
    """A value with its 95 % bootstrap interval; None where it cannot be computed."""

    value: float | None
    low: float | None = None
    high: float | None = None
