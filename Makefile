# Every target does its own set-up: it makes .venv, installs the pinned versions and lowtide itself (editable).
# Stamp files, one for the environment and one per set of extras, make the second call quick. They are touched last, so an
# interrupted set-up starts again.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
# Worker processes for the tests; each compiles models, so more than the cores only slows them down.
WORKERS ?= 2
ARGS ?=

.DEFAULT_GOAL := help
.PHONY: help demo test lint types bench compat clean

help:
	@echo "make demo                train a small Llama on text of varying length: eager, torch.compile, lowtide"
	@echo "make test                lint, types and every test"
	@echo "make lint                ruff only"
	@echo "make bench               every benchmark, full size (ARGS=--quick for short runs)"
	@echo "make compat TORCH=x.y.z  the lowering and backend tests under another torch, in a venv of its own"
	@echo "make clean               remove the virtual environments and caches"

IS_NEW_ENOUGH := -c 'import sys; sys.exit(sys.version_info < (3, 11))'

# $(call make_venv,FOLDER) leaves a working environment in FOLDER: one that is there stays, one without pip (an interrupted
# set-up, a Python without ensurepip) or of an old Python is removed and made anew.
define make_venv
@{ $(1)/bin/python $(IS_NEW_ENOUGH) && $(1)/bin/python -m pip --version; } > /dev/null 2>&1 || { \
  $(PYTHON) $(IS_NEW_ENOUGH) \
    || { echo "lowtide needs Python 3.11 or newer: make PYTHON=/path/to/python3.11 ..."; exit 1; }; \
  if [ -f $(1)/pyvenv.cfg ]; then rm -rf $(1); fi; \
  $(PYTHON) -m venv $(1) && $(1)/bin/python -m pip --version > /dev/null; }
endef

$(VENV)/.pip-ready:
	$(call make_venv,$(VENV))
	@touch $@

$(VENV)/.demo-ready: pyproject.toml constraints.txt | $(VENV)/.pip-ready
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[hf,report]'
	@touch $@

$(VENV)/.test-ready: pyproject.toml constraints.txt | $(VENV)/.pip-ready
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[hf,report,test]'
	@touch $@ $(VENV)/.demo-ready

demo: $(VENV)/.demo-ready
	$(BIN)/python -m demo $(ARGS)

lint: $(VENV)/.test-ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.test-ready
	$(BIN)/pyright --pythonpath $(BIN)/python

test: lint types
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadfile -q $(ARGS)
	@echo "lint, types and tests: all passed"

bench: $(VENV)/.demo-ready
	mkdir -p out
	for name in symbolic scheduling accounting parity; do \
	  $(BIN)/python -m benchmarks $$name --json out/$$name.json $(ARGS) || exit 1; done

compat:
	@test -n "$(TORCH)" || { echo "usage: make compat TORCH=2.14.1"; exit 1; }
	$(call make_venv,.venv-$(TORCH))
	grep -v -e '^torch==' -e '^triton==' constraints.txt > .venv-$(TORCH)/constraints.txt
	.venv-$(TORCH)/bin/python -m pip install --quiet -c .venv-$(TORCH)/constraints.txt torch==$(TORCH) -e '.[hf,test]'
	.venv-$(TORCH)/bin/python -m pytest -q tests/lower tests/torch_backend $(ARGS)
	@echo "lowering and backend under torch $(TORCH): all passed"

clean:
	rm -rf .venv .venv-* .pytest_cache .ruff_cache .hypothesis build dist out
