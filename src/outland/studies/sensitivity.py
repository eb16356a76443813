"""How AIA depends on the share it shelters and on the price of moving away."""

from outland.studies.axes import columns, rows
from outland.studies.base import Row, Study

SHARES = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
PRICES = (0.01, 0.1, 0.2, 0.5, 1.0, 1.5, 2.0, 3.0, 5.0)

STUDY = Study(
    name="sensitivity",
    title="AIA's two dials",
    question="How does AIA's test score depend on λ_s, the share it shelters, and on γ, the price of moving away?",
    rows=(
        *rows("ERM"),
        *(Row(f"{value:g}", "aia:released", {"method": {"lambda_s": value}}, group="λ_s") for value in SHARES),
        *(Row(f"{value:g}", "aia:released", {"method": {"gamma": value}}, group="γ") for value in PRICES),
    ),
    columns=columns("motif-base", "molbbbp-scaffold", "molhiv-size"),
    figures=("curves",),
    note="The paper shows this as a picture without numbers. While one dial turns, the other is as in the recipe.",
)
