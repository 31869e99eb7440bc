# Two targets do all the set-up on a fresh machine with Python 3.11 or newer: `make check` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/installed

.PHONY: check test mutants lint types wheel bench docs clean

check: $(STAMP)  ## the verdict on our own kernel, on this machine's CPU
	$(BIN)/mxassay check

test: $(STAMP)  ## all tests; those of the kernels twice, on the emulated card and on Triton's interpreter
	$(BIN)/python -m pytest -n auto
	MXASSAY_DEVICE=interpreter $(BIN)/python -m pytest -n auto tests/optimized

mutants: $(STAMP)  ## mutate reference/ and layouts/ and count what their tests kill; hours on one core
	$(BIN)/python tests/mutants/campaign_of_mutants.py --jobs $(shell nproc) --journal build/mutants.jsonl

lint: $(STAMP)  ## style
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(STAMP)  ## mypy --strict
	$(BIN)/mypy

wheel: $(STAMP)  ## a wheel, installed into a clean environment and tried there
	$(BIN)/python tests/packaging/try_wheel.py

bench: $(STAMP)  ## the reference's speed beside its peers
	$(BIN)/mxassay bench

docs: $(STAMP)  ## the site, in build/docs; its generated pages are those of this code
	$(BIN)/python docs/generate.py
	$(BIN)/python -m sphinx -W -q -b html docs build/docs

# Strict editable mode, so that mypy and editors resolve mxassay.layouts and its neighbours.
$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -q -c constraints.txt --config-settings editable_mode=strict -e '.[dev]'
	touch $@

clean:
	rm -rf $(VENV) build dist *.egg-info
