# WarpDrive's commands. Needs nothing but make and Python 3.10 to 3.13; everything else goes into .venv.
#
#   make PYTHON=python3.12 ...          another interpreter
#   make train ARGS="tag_gridworld trainer.num_envs=500"
#
# The targets gpu-test and gpu-benchmark are for a machine with a GPU, which need not have a network: they use its own
# Python, with its PyTorch, and install what it lacks from wheels into .offline.

PYTHON ?= python3
ARGS ?= tag_gridworld
WHEELS ?= wheels
OPTIONS ?=

VENV := .venv
BIN := $(VENV)/bin
PIP_INSTALL := $(BIN)/python -m pip install -qq --disable-pip-version-check --constraint constraints.txt
TYPECHECK := build/typecheck
OFFLINE := .offline
NOTEBOOKS := tests/test_tutorials.py tests/warpdrive/kernels/test_notebooks.py
WITH_OFFLINE = PYTHONSAFEPATH=1 PYTHONPATH="$(CURDIR)/$(OFFLINE):$(CURDIR)/benchmarks" $(PYTHON)
SOURCES_OF_THE_INSTALLATION := pyproject.toml setup.py constraints.txt

.DEFAULT_GOAL := help
.PHONY: help train test lint lint-style lint-types format install install-test install-lint clean distclean
.PHONY: gpu-wheels gpu-install gpu-test gpu-benchmark

help:  ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

train: install  ## train the taggers of tag_gridworld, evaluate them, write an animation
	@$(BIN)/warpdrive train $(ARGS)

test: install-test  ## run the whole test suite, on all cores
	@$(BIN)/python -m pytest --numprocesses auto --dist worksteal

gpu-wheels: install-test  ## gather in wheels/ what a GPU machine without a network lacks (OPTIONS="--help")
	@$(BIN)/python tools/gather_wheels.py --folder "$(WHEELS)" $(OPTIONS)

gpu-test: gpu-install  ## on a GPU: run the tests that need one (PYTHON=python3 WHEELS=wheels)
	@$(WITH_OFFLINE) -m pytest -m gpu $(NOTEBOOKS:%=--ignore=%) --durations=10 $(OPTIONS)

gpu-benchmark: gpu-install  ## on a GPU: measure everything, write benchmarks/results/<date>_<gpu>.json
	@$(WITH_OFFLINE) benchmarks/gpu.py $(OPTIONS)

gpu-install:
	@$(PYTHON) -c 'import sys, torch; sys.exit(0 if torch.cuda.is_available() else "make: the PyTorch of $(PYTHON) (%s) sees no GPU" % torch.__version__)'
	@$(PYTHON) tools/install_offline.py --wheels "$(WHEELS)" --into $(OFFLINE)

lint: lint-style lint-types  ## ruff, and mypy on the package as it is installed

lint-style: install-lint
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

# Type checkers do not follow package_dir in an editable installation.
lint-types: install-lint
	@rm -rf build
	@$(PIP_INSTALL) --no-deps --target $(TYPECHECK) .
	MYPYPATH=$(TYPECHECK) $(BIN)/mypy --package warpdrive

format: install-lint  ## let ruff rewrite the code
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

install: $(VENV)/.installed
install-test: $(VENV)/.installed-test
install-lint: $(VENV)/.installed-lint

# An editable installation: the commands and the tests run the code of this checkout.
$(VENV)/.installed: $(VENV)/.created $(SOURCES_OF_THE_INSTALLATION)
	@echo "Installing WarpDrive and what it needs into $(VENV) (once; PyTorch is large, this takes a few minutes)"
	@$(PIP_INSTALL) --editable .
	@touch $@

$(VENV)/.installed-test: $(VENV)/.installed
	@echo "Installing what the tests need"
	@$(PIP_INSTALL) --editable ".[test]"
	@touch $@

$(VENV)/.installed-lint: $(VENV)/.installed
	@echo "Installing ruff and mypy"
	@$(PIP_INSTALL) --editable ".[lint]"
	@touch $@

$(VENV)/.created:
	@command -v $(PYTHON) >/dev/null || { echo "make: no '$(PYTHON)' here. Install Python 3.10 to 3.13, or name one: make PYTHON=/path/to/python3"; exit 1; }
	@$(PYTHON) -c 'import sys; found = sys.version_info[:2]; sys.exit(0 if (3, 10) <= found <= (3, 13) else "make: WarpDrive runs on Python 3.10 to 3.13, and $(PYTHON) is %d.%d. Name another one: make PYTHON=python3.12" % found)'
	@$(PYTHON) -m venv $(VENV) || { echo "make: $(PYTHON) cannot make a virtual environment (on Debian and Ubuntu: apt install python3-venv)"; rm -rf $(VENV); exit 1; }
	@touch $@

clean:  ## remove what building and testing left behind (keeps .venv and runs)
	rm -rf build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache
	find . -name __pycache__ -not -path './$(VENV)/*' -prune -exec rm -rf {} +

distclean: clean  ## the same, and remove .venv and .offline
	rm -rf $(VENV) $(OFFLINE)
