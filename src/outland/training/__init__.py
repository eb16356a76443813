"""The loop, model selection, checkpoints and resume, runs and their records."""

from outland.spec import DataSettings, RunSpec, TrainSettings
from outland.training.evaluate import evaluate, predict
from outland.training.fleet import FleetResult, run_fleet
from outland.training.record import RunRecord
from outland.training.runs import prepare, run
from outland.training.selection import RULES, SelectionRule
from outland.training.trainer import Trainer
