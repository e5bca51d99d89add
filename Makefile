# Every command a developer needs. `make help` lists them; CONTRIBUTING.md explains them.
#
# Nothing here writes outside the checkout. On a fresh Debian 12 it needs python3, python3-venv and
# make; everything else comes from requirements.lock, by hash.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/setup.stamp
# The resolver that writes the lock file; installed only by `make lock`.
LOCK_TOOL := uv==0.13.8

# A warning of an interpreter about a stale __pycache__ is never wanted, nor is a question of pip.
export PIP_DISABLE_PIP_VERSION_CHECK := 1
export PIP_NO_INPUT := 1

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

.PHONY: help
help: ## List these commands
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | \
		awk -F ':.*## ' '{ printf "  make %-15s %s\n", $$1, $$2 }'

# --- the environment ---

.PHONY: setup
setup: $(STAMP) ## Make .venv from requirements.lock (does nothing when it is up to date)

$(STAMP): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "make setup: Python 3.11 or newer is needed, and '$(PYTHON)' is not that." >&2; \
		echo "Install it, or name it: make setup PYTHON=/path/to/python3" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
		echo "make setup: this Python cannot make virtual environments." >&2; \
		echo "On Debian and Ubuntu: apt install python3-venv" >&2; exit 1; }
	@$(BIN)/python -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv --clear $(VENV)
	@echo "Installing what requirements.lock lists into $(VENV) ..."
	@$(BIN)/python -m pip install --quiet --no-cache-dir --require-hashes -r requirements.lock
	@$(BIN)/python -m pip install --quiet --no-cache-dir --no-deps --no-build-isolation --editable .
	@touch $(STAMP)

.PHONY: lock
lock: setup ## Resolve pyproject.toml again and rewrite requirements.lock
	$(BIN)/python -m pip install --quiet --no-cache-dir '$(LOCK_TOOL)'
	$(BIN)/uv pip compile pyproject.toml --all-extras --universal --python-version 3.11 \
		--generate-hashes --no-emit-index-url --no-emit-find-links --no-cache --quiet --upgrade \
		--custom-compile-command "make lock" --output-file requirements.lock

.PHONY: clean
clean: ## Remove the environment, the caches and everything built
	rm -rf $(VENV) .cache build dist *.egg-info htmlcov .coverage
	rm -rf .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# --- to see it work ---

.PHONY: demo
demo: setup ## Book, run and follow a metajob on three sites of this machine
	@$(BIN)/gur demo

.PHONY: demo-economy
demo-economy: setup ## Users with deadlines and budgets buy at three real sites; tables in OUT=build/economy
	@$(BIN)/gurlab economy --out $(or $(OUT),build/economy)

.PHONY: bench
bench: setup ## Measure speed and print each figure beside its target
	$(BIN)/python -m bench

# --- tests ---

# Tests start hundreds of processes, which take a compiled module as it is instead of compiling it anew, also where
# the surroundings say that none is to be written; and pytest keeps its own compiled tests.
test test-again unit component integration sim oracles oracles-update: export PYTHONDONTWRITEBYTECODE :=
test test-again unit component integration sim oracles oracles-update: export PYTHONPYCACHEPREFIX := $(CURDIR)/.cache/pycache

# Many tests wait for real daemons, so more workers than processors pay. A file of tests stays with one worker, for
# what its tests share; each worker has a grid of its own. The files come in their order, so that the long ones, with
# real daemons, are not the last. Unit tests gain nothing from workers.
WORKERS ?= 4

.PHONY: test
test: setup ## Run the whole test suite, in WORKERS=4 processes
	@failed=0; \
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder -m "not alone" || failed=1; \
	$(BIN)/python -m pytest -m alone || failed=1; \
	exit $$failed

.PHONY: test-again
test-again: setup ## Run what failed in the last `make test` once more, alone; not if it was much
	@$(BIN)/python tools/few_failures.py
	$(BIN)/python -m pytest --last-failed --last-failed-no-failures none

.PHONY: test-systems
test-systems: ## Install the real sshd, Slurm, Grid Engine and SPIN that tests meet (Debian, as root)
	@tools/install_test_systems.sh

.PHONY: unit
unit: setup ## Run the tests of milliseconds
	$(BIN)/python -m pytest -q tests/unit

.PHONY: component
component: setup ## Run the tests of whole parts: command lines, daemons' starts, files
	$(BIN)/python -m pytest -q tests/component

.PHONY: integration
integration: setup ## Run the tests with real processes and sockets
	$(BIN)/python -m pytest tests/integration

.PHONY: sim
sim: setup ## Run the simulated worlds; SEED=n replays one seed
	$(BIN)/python -m pytest tests/sim $(if $(SEED),--sim-seed=$(SEED))

.PHONY: torture
torture: setup ## Run random simulated grids to death; SEEDS=1..1000, SITES=n, LOSS=p
	$(BIN)/gurlab torture --seeds $(or $(SEEDS),1..200) --sites $(or $(SITES),20) --loss $(or $(LOSS),0.5)

.PHONY: oracles
oracles: setup ## Compare all answers with those kept in tests/oracles; ONLY=words picks some
	$(BIN)/python -m pytest -q tests/oracles --oracle-all $(if $(ONLY),-k '$(ONLY)')

.PHONY: oracles-update
oracles-update: setup ## Keep today's answers instead; on a clean tree; ONLY=words picks some
	@test -z "$$(git status --porcelain -- . ':!tests/oracles/frozen')" || { \
		echo "make oracles-update: commit your change first, so that what is kept has a name." >&2; \
		exit 1; }
	$(BIN)/python -m pytest -q tests/oracles --oracle-update $(if $(ONLY),-k '$(ONLY)')

# --- checks ---

.PHONY: check
check: static unit ## Everything review expects to be green, in about a minute

.PHONY: static
static: fmt-check lint spell imports proto-check types ## The part of `check` that runs nothing

.PHONY: fmt
fmt: setup ## Rewrite the code in the house form
	$(BIN)/ruff check --quiet --fix --select I .
	$(BIN)/ruff format .

.PHONY: fmt-check
fmt-check: setup
	$(BIN)/ruff format --check .

.PHONY: lint
lint: setup ## Look for mistakes and banned calls
	$(BIN)/ruff check .

.PHONY: types
types: setup ## Check the types, strictly
	$(BIN)/mypy .

.PHONY: imports
imports: setup ## Check the directions of imports between packages
	$(BIN)/lint-imports

.PHONY: rooms
rooms: setup ## Draw the inside of each folder by its imports
	@$(BIN)/python tools/draw_rooms.py

.PHONY: spell
spell: setup ## Check the spelling
	$(BIN)/codespell

.PHONY: check-model
check-model: setup ## Search every state of the protocol for trips, with SPIN
	@$(BIN)/python tools/check_model.py

.PHONY: mutants
mutants: setup ## Change consensus, journal and authorisation bit by bit; does a test notice? ONLY=words
	@$(BIN)/python tools/mutants.py $(ONLY)

.PHONY: proto
proto: setup ## Generate gridwire/ from proto/
	$(BIN)/python tools/generate_proto.py

.PHONY: proto-check
proto-check: setup
	$(BIN)/python tools/generate_proto.py --check
