# Everything a fresh machine needs is made here: only Python 3.11+, git and make are assumed.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo test test-all check bench bench-peers bench-paper docs clean

demo: $(VENV)/core          ## a release from the bundled incomplete table
	$(BIN)/gapless demo

test: $(VENV)/dev           ## the tests, slow tier left out
	OPENBLAS_NUM_THREADS=1 POLARS_MAX_THREADS=1 $(BIN)/python -m pytest -q -n 2 --dist worksteal -m "not slow"

test-all: $(VENV)/dev       ## all tests, property tests with new random examples
	$(BIN)/pip install -q -e ".[bayes,spark]" "mbi==2.0.*" "jax-privacy==2.0.*"
	$(BIN)/python -m pytest -q -n 2 --dist worksteal --hypothesis-profile=explore

check: $(VENV)/dev          ## lint, types, import rules
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(VENV)/dev          ## the benchmarks that need no other tool
	$(BIN)/pip install -q -e ".[bench]"
	$(BIN)/python bench/counting.py
	$(BIN)/python bench/sgd.py --peers --repetitions 1
	$(BIN)/python bench/threads.py --methods kamino "logistic weights" --runs 1
	$(BIN)/python bench/ledger.py
	$(BIN)/python bench/first_batch.py
	$(BIN)/python bench/knn.py
	$(BIN)/python bench/knn_questions.py
	$(BIN)/python bench/ask_values.py
	$(BIN)/python bench/ground_truth.py
	$(BIN)/python bench/selection.py
	$(BIN)/python bench/fit.py --repetitions 1
	$(BIN)/python bench/mixture.py --runs 1
	$(BIN)/python bench/sparse.py --runs 1
	$(BIN)/python bench/weights.py adult
	$(BIN)/python bench/weights.py bias
	$(BIN)/python bench/relations.py --epsilons 1 --seeds 1 --minutes 30
	$(BIN)/python bench/choose.py --minutes 30 --picture bench/results/choose_a_method.svg
	$(BIN)/python bench/synth.py --peers none --repetitions 1

bench-peers: $(VENV)/dev    ## the synthesizers beside other tools: hours, and gigabytes of environments
	$(BIN)/pip install -q -e ".[bench]"
	sh bench/peers_setup.sh
	$(BIN)/python bench/sgd.py
	$(BIN)/python bench/synth.py
	$(BIN)/python bench/synth.py --scaling

bench-paper: $(VENV)/dev    ## the paper's experiments in a small setting: figures and a table of claims, half an hour
	$(BIN)/pip install -q -e ".[bench]"
	$(BIN)/python bench/paper.py

docs: $(VENV)/dev           ## the documentation as a site
	$(BIN)/pip install -q -e ".[docs]"
	$(BIN)/mkdocs build --strict

$(VENV)/core: pyproject.toml
	$(PYTHON) -c "import sys; sys.exit('gapless needs Python 3.11 or newer: make PYTHON=python3.11 …' if sys.version_info < (3, 11) else 0)"
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install -q --disable-pip-version-check -e .
	@touch $@

$(VENV)/dev: $(VENV)/core
	$(BIN)/pip install -q --disable-pip-version-check -e ".[dev]"
	@touch $@

clean:
	rm -rf $(VENV) site dist
