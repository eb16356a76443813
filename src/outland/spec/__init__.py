"""What determines a run: the data, the method, the network and how long it trains, all spelled out and hashed."""

from outland.spec.data import data_key, load_rows, load_splits
from outland.spec.run import GROUPS, RESULTS, DataSettings, RunSpec, spec_key
from outland.spec.train import Precision, TrainSettings
