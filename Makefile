# WarpDrive's commands. Needs nothing but make and Python 3.10 to 3.14; everything else goes into .venv.
#
#   make PYTHON=python3.12 ...          another interpreter
#   make CONSTRAINTS=/dev/null ...      the newest versions that pyproject.toml allows, instead of those tested together
#   make train ARGS="tag_gridworld trainer.num_envs=500"
#
# The targets gpu-test and gpu-benchmark are for a machine with a GPU, which need not have a network: they use its own
# Python, with its PyTorch, and install what it lacks from wheels into .offline.

PYTHON ?= python3
ARGS ?= tag_gridworld
WHEELS ?= wheels
GPU_WORKERS ?= 8
OPTIONS ?=
GAME ?= all
FRAMES ?= 2000
SEED ?= 0

VENV := .venv
BIN := $(VENV)/bin
CONSTRAINTS ?= constraints.txt
# uv, where it is installed, takes seconds instead of minutes. It ignores pip's settings: hand on where wheels are found.
UV := $(shell command -v uv 2>/dev/null)
ifdef PIP_FIND_LINKS
export UV_FIND_LINKS ?= $(PIP_FIND_LINKS)
endif
ifdef PIP_INDEX_URL
export UV_DEFAULT_INDEX ?= $(PIP_INDEX_URL)
endif
INSTALLER := $(if $(UV),$(UV) pip install --python $(BIN)/python,$(BIN)/python -m pip install --disable-pip-version-check)
INSTALL_LOG := $(VENV)/install.log
TYPECHECK := build/typecheck
# one more than there are cores, since many tests wait for processes that they start
WORKERS ?= $(shell expr `getconf _NPROCESSORS_ONLN` + 1)
OFFLINE := .offline
NOTEBOOKS := tests/test_tutorials.py tests/warpdrive/kernels/test_notebooks.py
WITH_OFFLINE = PYTHONSAFEPATH=1 PYTHONPATH="$(CURDIR)/$(OFFLINE):$(CURDIR)/benchmarks" $(PYTHON)
SOURCES_OF_THE_INSTALLATION := pyproject.toml setup.py constraints.txt

# $(call install,arguments): with progress on a terminal, with the log alone elsewhere. A failure shows why, and what to do.
define install
@set -- $(INSTALLER) --constraint "$(CONSTRAINTS)" $(1); \
if [ -t 1 ]; then "$$@"; else "$$@" >$(INSTALL_LOG) 2>&1 || { cat $(INSTALL_LOG); false; }; fi || { \
	echo "make: the installation into $(VENV) failed, for the reason above. Without a network, try again with one. If a version" \
		"is not available, try another Python (make PYTHON=python3.12) or other versions (make CONSTRAINTS=/dev/null)."; \
	exit 1; }
endef

.DEFAULT_GOAL := help
.PHONY: help train gallery tutorials generated docs docs-serve test test-all test-fast atari-check lint lint-style lint-types format install install-test install-lint same-python clean distclean
.PHONY: gpu-wheels gpu-install gpu-test gpu-benchmark

help:  ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

train: install  ## train policies in tag_gridworld, evaluate and animate them
	@$(BIN)/warpdrive train $(ARGS)

gallery: $(VENV)/.installed-video  ## draw episodes of trained policies, gallery/index.html (ARGS="--train": train them again)
	@$(BIN)/python tools/gallery.py $(if $(filter file,$(origin ARGS)),,$(ARGS))

tutorials: install-test  ## execute the tutorials, and store their notebooks (ARGS="02 05": these)
	@$(BIN)/python tools/tutorials.py $(if $(filter file,$(origin ARGS)),,$(ARGS))

generated: install-test  ## regenerate the schema of run configurations, and the reference pages, from the code
	@$(BIN)/warpdrive schema --output training/run_configs/run_config.schema.json
	@$(BIN)/python tools/environment_pages.py
	@$(BIN)/python tools/reference_pages.py

docs: $(VENV)/.installed-docs  ## build the documentation, site/index.html, with dead links as errors
	@$(BIN)/python tools/docs_site.py

docs-serve: $(VENV)/.installed-docs  ## serve the documentation on http://localhost:8000, and build it again after changes
	@$(BIN)/python tools/docs_site.py --serve

# Bytecode is kept, also where the environment says otherwise: hundreds of tests start a Python.
test test-all test-fast: export PYTHONDONTWRITEBYTECODE :=

test: install-test  ## run the test suite on all cores
	@$(BIN)/python -m pytest --numprocesses $(WORKERS) --dist worksteal -m "not exhaustive"

test-all: install-test  ## run all tests, including those marked exhaustive: further cases of what other tests cover
	@$(BIN)/python -m pytest --numprocesses $(WORKERS) --dist worksteal

test-fast: install-test  ## run the fast tests, which compile few kernels (a minute; 40 s with a warm cache)
	@$(BIN)/python -m pytest --numprocesses $(WORKERS) --dist worksteal -q @tests/fast_tests.txt

atari-check: install-test  ## compare the Atari console with ale-py (GAME=pong or all, FRAMES=2000 SEED=0 OPTIONS="--help")
	@$(BIN)/python tools/atari_check.py $(GAME) --frames $(FRAMES) --seed $(SEED) $(OPTIONS)

gpu-wheels: install-test  ## gather wheels for a GPU machine without a network (OPTIONS="--help")
	@$(BIN)/python tools/gather_wheels.py --folder "$(WHEELS)" $(OPTIONS)

# Kernels are compiled by several processes, and tests that hang are told.
gpu-test: gpu-install  ## run the tests that need a GPU (PYTHON=python3 WHEELS=wheels GPU_WORKERS=8)
	@$(WITH_OFFLINE) -m pytest -m gpu $(NOTEBOOKS:%=--ignore=%) --numprocesses $(GPU_WORKERS) --dist worksteal \
		-o faulthandler_timeout=200 --durations=10 $(OPTIONS)

gpu-benchmark: gpu-install  ## run all benchmarks on a GPU, and write benchmarks/results/<date>_<gpu>.json
	@$(WITH_OFFLINE) benchmarks/gpu.py $(OPTIONS)

gpu-install:
	@$(PYTHON) -c 'import sys, torch; sys.exit(0 if torch.cuda.is_available() else "make: the PyTorch of $(PYTHON) (%s) sees no GPU" % torch.__version__)'
	@$(PYTHON) tools/install_offline.py --wheels "$(WHEELS)" --into $(OFFLINE)
	@$(WITH_OFFLINE) -c 'import sys; from warpdrive.backends import loading; found = loading.lacks("numba", loading.this_machine()); sys.exit("make: " + ". ".join(map(str, found)) if found else 0)'

lint: lint-style lint-types  ## run ruff, and mypy on the packages

lint-style: install-lint
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

# Type checkers do not follow package_dir in an editable installation: lay the packages out as setup.py installs them.
lint-types: install-lint
	@rm -rf $(TYPECHECK) && mkdir -p $(TYPECHECK)
	@cp -R warpdrive $(TYPECHECK)/ && cp -R cuda_src envs training $(TYPECHECK)/warpdrive/
	MYPYPATH=$(TYPECHECK) $(BIN)/mypy --package warpdrive

format: install-lint  ## format the code with ruff, and apply its fixes
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

install: same-python $(VENV)/.installed
install-test: same-python $(VENV)/.installed-test
install-lint: same-python $(VENV)/.installed-lint

# PYTHON=... says which interpreter the environment is made with: one that is there already may be another's.
same-python: $(VENV)/.created
ifneq ($(origin PYTHON),file)
	@version='import sys; print("%d.%d" % sys.version_info[:2])'; found=$$($(BIN)/python -c "$$version"); \
	wanted=$$($(PYTHON) -c "$$version") || { echo "make: '$(PYTHON)' does not run"; exit 1; }; \
	[ "$$wanted" = "$$found" ] || { echo "make: $(VENV) was created with Python $$found, but $(PYTHON) is $$wanted: run make distclean first"; exit 1; }
endif

# An editable installation: the commands and the tests run the code of this checkout.
$(VENV)/.installed: $(VENV)/.created $(SOURCES_OF_THE_INSTALLATION)
	@echo "Installing WarpDrive and its dependencies into $(VENV) (once; this takes a few minutes, as PyTorch is large)"
	$(call install,--editable .)
	@touch $@

$(VENV)/.installed-test: $(VENV)/.installed
	@echo "Installing the dependencies of the tests"
	$(call install,--editable ".[test]")
	$(call install,--no-deps overcooked_ai==1.1.0) # it needs gym and pygame, which its rules do not use, and tests replace
	@touch $@

$(VENV)/.installed-video: $(VENV)/.installed
	@echo "Installing ffmpeg"
	$(call install,--editable ".[video]")
	@touch $@

$(VENV)/.installed-docs: $(VENV)/.installed
	@echo "Installing Zensical and mkdocstrings"
	$(call install,--editable ".[docs]")
	@touch $@

$(VENV)/.installed-lint: $(VENV)/.installed
	@echo "Installing ruff and mypy"
	$(call install,--editable ".[lint]")
	@touch $@

$(VENV)/.created:
	@command -v $(PYTHON) >/dev/null || { echo "make: '$(PYTHON)' not found. Install Python 3.10 to 3.14, or set its path: make PYTHON=/path/to/python3"; exit 1; }
	@$(PYTHON) -c 'import sys; found = sys.version_info[:2]; sys.exit(0 if (3, 10) <= found <= (3, 14) else "make: WarpDrive runs on Python 3.10 to 3.14, and $(PYTHON) is %d.%d. Name another one: make PYTHON=python3.12" % found)'
	@$(PYTHON) -m venv $(VENV) || { echo "make: $(PYTHON) cannot create a virtual environment (on Debian and Ubuntu: apt install python3-venv)"; rm -rf $(VENV); exit 1; }
	@touch $@

clean:  ## remove build and test artifacts (keeps .venv, runs and gallery)
	rm -rf build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache
	find . -name __pycache__ -not -path './$(VENV)/*' -prune -exec rm -rf {} +

distclean: clean  ## run clean, and remove .venv and .offline
	rm -rf $(VENV) $(OFFLINE)
