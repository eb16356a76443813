# `make demo` and `make test` do all the set-up on a fresh machine; nothing is installed twice.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
# One thread a process: the tests run side by side, and small tensors gain nothing from a second thread.
# Each works through a stretch of the tests, so that what a file's tests share is made once, and helps the other at the end.
# Compiled code is kept: the processes that tests start would compile all of it again.
WORKERS ?= 2
PYTEST := PYTHONDONTWRITEBYTECODE= OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal

.PHONY: help demo test faults faults-short check bench results docs format clean

help:
	@echo "make demo    prepare Motif, train ERM, AIA and Evidence, show them side by side (about 2 minutes)"
	@echo "make test    the whole test suite"
	@echo "make faults  kills, full disks, hostile files: counts of what was survived (about 11 minutes);"
	@echo "             make faults-short has each kind of them, in a minute or two"
	@echo "make check   formatting, lint, types, and the one-way import contract"
	@echo "make bench   our speed beside a plain reference, on whatever device is there (under 5 minutes on a CPU)"
	@echo "make results docs/results.md, docs/cost.md, a table of docs/ours.md anew, from the records in results/records"
	@echo "make docs    the documentation as a site, in docs/_build"
	@echo "make format  put the code in its standard form"

$(READY): pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "outland needs Python 3.11 or newer: make PYTHON=python3.11 ...")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	touch $(READY)

demo: $(READY)
	$(BIN)/outland demo

test: $(READY)
	$(PYTEST)

faults: $(READY)
	$(PYTEST) -m '' tests/faults

faults-short: $(READY)
	OUTLAND_FAULTS=0.05 $(PYTEST) -m faults tests/faults

check: $(READY)
	$(BIN)/ruff format --check src tests benchmarks
	$(BIN)/ruff check src tests benchmarks
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(READY)
	$(BIN)/python benchmarks/speed.py

results: $(READY)
	$(BIN)/python -m outland.report.results_page

docs: $(READY)
	$(BIN)/sphinx-build -q -W --keep-going -b html docs docs/_build
	@echo "open docs/_build/index.html"

format: $(READY)
	$(BIN)/ruff format src tests benchmarks
	$(BIN)/ruff check --fix src tests benchmarks

clean:
	rm -rf $(VENV) docs/_build .mypy_cache .ruff_cache .pytest_cache .import_linter_cache
