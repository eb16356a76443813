"""Estimators for people with data of their own: fit, predict, explain, save."""

from outland.estimators.classifier import GraphClassifier
from outland.estimators.fitting import FitResult, fit
from outland.estimators.inputs import BadInput, UnusedRowsWarning, scaffold_groups
from outland.estimators.regressor import GraphRegressor
