"""Estimators for people with data of their own: fit, predict, explain, save."""

from outland.estimators.classifier import GraphClassifier
from outland.estimators.folder import load_folder, save_folder
from outland.estimators.inputs import BadInput, scaffold_groups
from outland.estimators.model import Answers, FittedModel
from outland.estimators.regressor import GraphRegressor

__all__ = [
    "Answers",
    "BadInput",
    "FittedModel",
    "GraphClassifier",
    "GraphRegressor",
    "load_folder",
    "save_folder",
    "scaffold_groups",
]
