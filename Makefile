# Two commands: `make sweep` runs the main job, `make test` runs the tests. Both set themselves up.
VENV    ?= .venv
PYTHON  ?= python3
BIN     := $(VENV)/bin
export OMP_NUM_THREADS ?= 1
unexport PYTHONDONTWRITEBYTECODE

# uv reads its own variable for a folder of wheels; hand it pip's, where there is one.
INSTALL = UV_FIND_LINKS="$${PIP_FIND_LINKS:-}" $(BIN)/uv pip install --quiet --python $(BIN)/python --compile-bytecode -c constraints.txt

.PHONY: sweep test check bench slurm soak clean

sweep: $(VENV)/.run  ## the 8x8 study at mini size: some minutes on two cores, resumable
	@$(BIN)/orchestrate sweep compat.yaml preset=mini

test: $(VENV)/.dev  ## all tests but those that need a real Slurm (`make slurm`)
	@$(BIN)/python -m pytest -n 2 --dist worksteal -q -m "not slurm and not benchmark"

slurm: $(VENV)/.dev  ## the tests that need a real Slurm: brings one up on this machine (Debian, root)
	@bash tests/slurm/run.sh

soak: $(VENV)/.dev  ## 2,000 packed runs on a real Slurm while everything is killed (Debian, root; SOAK="--packs 4" for a look)
	@$(BIN)/python tests/benchmarks/soak.py $(SOAK)

check: $(VENV)/.dev  ## format, lint, types, import order
	@$(BIN)/ruff format --check -q . && $(BIN)/ruff check -q . && $(BIN)/lint-imports --no-logo --no-cache && $(BIN)/pyright --pythonpath $(BIN)/python

bench: $(VENV)/.dev  ## ratios against floors measured in the same run
	@$(BIN)/python tests/benchmarks/run.py

$(VENV)/bin/uv:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "orchestrate needs Python 3.11 or newer; this is " + sys.version.split()[0] + ". Say which to use: make PYTHON=python3.12 ...")'
	@echo "Setting up $(VENV) (once, about a minute) ..."
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check uv

$(VENV)/.run: pyproject.toml constraints.txt | $(VENV)/bin/uv
	@$(INSTALL) -e .
	@touch $@

$(VENV)/.dev: pyproject.toml constraints.txt | $(VENV)/bin/uv
	@$(INSTALL) -e '.[dev]'
	@touch $@ $(VENV)/.run

clean:  ## the environment and caches, never results
	rm -rf $(VENV) .pytest_cache .ruff_cache .hypothesis build *.egg-info
