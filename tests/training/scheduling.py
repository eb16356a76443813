"""A fleet of runs that train nothing, for the tests of its scheduler."""

from types import SimpleNamespace

from outland.training.scheduler import ActiveRun, MemoryBudget, Scheduler

MEMORY = MemoryBudget(lambda: float("inf"))


class Fleet:
    """Runs of so many steps each, and what became of them."""

    def __init__(self, loads, width=10, steps=3, script=None, **named):
        self.begun, self.ended, self.seen, self.restarts = [], [], [], []
        self.steps, self.script = steps, script or (lambda index, step: None)
        self.scheduler = Scheduler(loads, width, self.start, on_end=self.ended.append, **named)

    def start(self, index, restarted):
        self.begun.append(index)
        self.restarts += [index] if restarted else []
        return ActiveRun(SimpleNamespace(record=f"record {index}", was_whole=True), self.train(index))

    def train(self, index):
        for step in range(self.steps):
            self.seen.append(frozenset(self.scheduler.active))
            yield self.script(index, step)

    def run(self, budget=MEMORY):
        return self.scheduler.run(budget)
