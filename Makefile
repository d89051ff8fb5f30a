# Everything runs from .venv, which the first target that needs it makes.

SHELL := bash
.DEFAULT_GOAL := help
.PHONY: help setup demo test test-slow lint format notebooks lab lock clean

NEW_ENOUGH := import sys; sys.exit(sys.version_info < (3, 11))
PYTHON ?= $(shell for p in python3 python3.11 python3.12 python3.13 python3.14; do \
	"$$p" -c "$(NEW_ENOUGH)" 2>/dev/null && echo "$$p" && break; done)

BIN := .venv/bin
LOCKED := .venv/locked
READY := .venv/ready
PIP := $(BIN)/python -m pip --disable-pip-version-check --no-input

# pip's hints about its own settings are noise here; its errors pass.
QUIETLY := 2> >(grep -v '^WARNING: ' >&2)

help: ## list the targets (what plain `make` does)
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(READY) ## make .venv from requirements.lock, once (a few minutes)

demo: $(READY) ## answer chats with and without a cache, then grade three sample notebooks
	@$(BIN)/ol demo

test: lint ## lint, then every test that is not marked slow
	$(BIN)/python -m pytest -m "not slow"

test-slow: $(READY) ## the tests marked slow
	$(BIN)/python -m pytest -m slow

lint: $(READY) ## ruff, formatting and strict types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy --strict course autograder solutions

format: $(READY) ## mend what ruff can mend by itself
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

notebooks: $(READY) ## build the .ipynb files from their text sources
	$(BIN)/python -m notebooks.build

lab: $(READY) ## open JupyterLab on the students' notebooks, in lab/; work that is there stays
	@$(BIN)/python -m notebooks.hand_out lab
	@$(BIN)/jupyter lab --LabApp.default_url=/lab/tree/lab

clean: ## remove caches and build outputs; .venv stays
	rm -rf build dist out *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -path ./.venv -prune -o -type d \( -name __pycache__ -o -name .ipynb_checkpoints \) -exec rm -rf {} +

lock: require-python ## rewrite requirements.lock from the pins in pyproject.toml (for maintainers)
	@set -euo pipefail; dir=$$(mktemp -d); trap 'rm -rf "$$dir"' EXIT; \
	"$(PYTHON)" -m venv "$$dir"; \
	"$$dir/bin/pip" install -q '.[dev]' $(QUIETLY); \
	{ grep '^#' requirements.lock; \
	  "$$dir/bin/pip" freeze --all --exclude pip --exclude kv-cache-course | sed 's/+[a-z0-9.]*$$//'; } > "$$dir/lock"; \
	cp "$$dir/lock" requirements.lock

.PHONY: require-python
require-python:
	@"$(PYTHON)" -c "$(NEW_ENOUGH)" 2>/dev/null || { \
	echo "Python 3.11 or newer is needed; PATH has $$(command -v python3 >/dev/null && python3 --version || echo no python3)."; \
	echo "Install one, or name one you have: make setup PYTHON=/path/to/python3.11"; exit 1; } >&2

# The stamps are written last: an install that was cut short starts again, from an empty .venv.
$(LOCKED): requirements.lock | require-python
	@echo "Setting up .venv from requirements.lock with $$("$(PYTHON)" --version), a few minutes the first time"
	@"$(PYTHON)" -m venv --clear .venv
	@set -euo pipefail; \
	$(PIP) install --progress-bar off -r requirements.lock $(QUIETLY) | \
	awk -v all="$$(grep -c == requirements.lock)" \
	'/^(Collecting|Processing) / && ++n % 20 == 0 {print "  " n " of " all " packages"; fflush()} \
	/^Installing collected/ {print "  unpacking all " all; fflush()}'
	@touch $(LOCKED)

$(READY): pyproject.toml $(LOCKED)
	@$(PIP) install --quiet --no-deps --no-build-isolation -e . $(QUIETLY)
	@touch $(READY)
	@echo "The environment is ready."
