# Every target sets up what it needs. To use another interpreter: make test PYTHON=python3.12

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet -c constraints.txt

.DEFAULT_GOAL := help
.PHONY: help demo test test-all lint format bench bench-guard docs clean

help:
	@echo "make demo      fit a small table and show what the model learned"
	@echo "make test      all tests but the slow ones (some minutes)"
	@echo "make test-all  all tests"
	@echo "make lint      format, style and types"
	@echo "make format    rewrite the files as lint wants them"
	@echo "make bench     accuracy and time against other libraries"
	@echo "make bench-guard  what got slower, beside a frozen reference"
	@echo "make docs      the documentation, into site/"
	@echo "make clean     remove what the targets made"

# The virtual environment, made again when the dependencies change.
$(VENV)/.installed: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) -e ".[plots,dev]"
	touch $@

$(VENV)/.installed-docs: $(VENV)/.installed
	$(PIP) -e ".[docs]"
	touch $@

$(VENV)/.installed-bench: $(VENV)/.installed
	$(PIP) -e ".[bench]"
	touch $@

demo: $(VENV)/.installed
	$(BIN)/python examples/demo.py

test: $(VENV)/.installed
	$(BIN)/python -m pytest -m "not slow"

test-all: $(VENV)/.installed
	$(BIN)/python -m pytest

lint: $(VENV)/.installed
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy --strict src

format: $(VENV)/.installed
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(VENV)/.installed-bench
	$(BIN)/python -m benchmarks.run

bench-guard: $(VENV)/.installed-bench
	$(BIN)/python -m benchmarks.guard

docs: $(VENV)/.installed-docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

clean:
	rm -rf $(VENV) site build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
