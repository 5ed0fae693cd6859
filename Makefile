# `make help` lists the commands.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin

.DEFAULT_GOAL := help
.PHONY: help setup serve test quick lint docs bench fuzz clean

help:            ## list the commands
	@sed -n 's/^\([a-z-]*\):.*## /\1|/p' $(MAKEFILE_LIST) | awk -F'|' '{printf "  make %-10s %s\n", $$1, $$2}'

PIP    := $(BIN)/pip install --quiet --disable-pip-version-check --editable

# What it takes to serve is a tenth of what it takes to test.
$(VENV)/.serves: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "etagere needs Python 3.11 or newer; say which with PYTHON=..."; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) .
	touch $@

$(VENV)/.ready: $(VENV)/.serves
	$(PIP) '.[dev]'
	touch $@

setup: $(VENV)/.ready   ## make the virtual environment and install everything

serve: $(VENV)/.serves   ## run the server on its embedded store (./etagere-data)
	$(BIN)/etagere serve $(ARGS)

lint: setup      ## ruff, mypy strict, import contracts
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

test: setup lint ## everything that CI runs
	$(BIN)/pytest $(ARGS)

quick: setup     ## the tests without the slow ones
	$(BIN)/pytest -m 'not slow' $(ARGS)

docs: setup      ## write the pages that are generated
	$(BIN)/python -m etagere.app.docs

bench: setup     ## compare with the peers that are installed (bench/README.md)
	$(BIN)/python -m bench $(ARGS)

fuzz: setup      ## the fuzzers of HTTP and of the storage services for some minutes
	ETAGERE_FUZZ_ROUNDS=200000 $(BIN)/pytest --timeout=3600 tests/servers/http/test_fuzz.py
	$(BIN)/python -m tests.fuzz --minutes 10 $(ARGS)

clean:           ## remove what the commands above made
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
