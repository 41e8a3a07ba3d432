# Two commands do everything, set-up included: make run, make test.
# The first Python that will do: 3.11 before others, since CI tests with it. `make PYTHON=...` names another one.
PYTHONS := python3.11 python3.12 python3.13 python3.14 python3 python
WILL_DO := -c 'import sys, ensurepip, venv; sys.exit(sys.version_info < (3, 11))' 2> /dev/null
PYTHON ?= $(shell for each in $(PYTHONS); do if $$each $(WILL_DO); then echo $$each; break; fi; done)
NO_PYTHON := AlphaEdge needs Python 3.11 or newer, with venv and pip. Install one (on Debian and Ubuntu: \
  apt install python3 python3-venv), or name yours: make PYTHON=/path/to/python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
PIP := $(BIN)/python -m pip --disable-pip-version-check
# Tests start a hundred processes, and each would compile every module anew.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help setup run test quick test-all lint types layers reference docs lock clean

help:  ## show this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 12

setup: $(READY)  ## make the virtual environment, everything pinned

$(READY): pyproject.toml constraints.txt
	@$(or $(PYTHON),false) $(WILL_DO) || { echo "$(if $(PYTHON),$(PYTHON): not found or too old. )$(NO_PYTHON)" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(PIP) install -q -c constraints.txt --editable ".[dev]"
	@touch $@

run: setup  ## watch six live edges learn from each other: two minutes, then results/demo/report.html
	$(BIN)/alphaedge demo --out results/demo

# Types are checked beside the tests: without its cache, mypy keeps one core busy for a minute.
test: setup lint layers  ## lint, types, layers and the quick tests
	@$(MAKE) --no-print-directory -j 2 types quick

# Three workers for two cores: tests of live edges wait most of the time.
quick: setup
	$(BIN)/python -m pytest -n 3 --dist worksteal -m "not long"

test-all: setup lint types layers  ## everything, the long tests too
	$(BIN)/python -m pytest -n 2 --dist worksteal

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: setup
	$(BIN)/mypy

layers: setup
	$(BIN)/lint-imports --no-cache

reference: setup  ## write the generated sections and pictures of the documentation anew
	$(BIN)/python -m tools.reference
	$(BIN)/python -m tools.architecture

docs: setup  ## build the documentation to site/; a broken link or name is an error
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

lock: setup  ## write the versions now installed to constraints.txt
	{ echo '# Every version that `make setup` installs. Regenerate with `make lock`.'; \
	  $(PIP) freeze --exclude-editable | sed 's/+cpu$$//'; } > constraints.txt

clean:  ## remove the virtual environment and caches
	rm -rf $(VENV) build dist site .pytest_cache .mypy_cache .ruff_cache .hypothesis
