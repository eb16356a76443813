"""Trained models: their folder on disk, predictions, explanations and scores. Training is not needed to use one."""

from outland.models.evaluation import evaluate_models
from outland.models.folder import load_model, save_model
from outland.models.model import Predictions, TrainedModel
from outland.models.summary import Assessment, PartScore, TrainingSummary
