# Every target sets itself up, with nothing but Python 3.11+, pip and make.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check

.PHONY: demo test check bench broken contract gpu resolve soak clean

$(BIN)/.base: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(PIP) -e .
	touch $@

$(BIN)/.test: $(BIN)/.base
	$(PIP) "pytest>=8.3" "hypothesis>=6.110" "pyyaml>=6" "dockerfile-parse>=2" "py-rattler>=0.20" "cloudpickle>=3" "pytest-xdist>=3.6"
	touch $@

$(BIN)/.check: $(BIN)/.test
	$(PIP) "ruff>=0.9" "mypy>=1.15"
	touch $@

$(BIN)/.examples: $(BIN)/.base
	@echo "installing scikit-learn and scikit-image, which hold the data (60 MB with SciPy)"
	$(PIP) -e ".[examples]"
	touch $@

# A choice needs a second backend; JAX for the CPU is the lightest. One that is there is used.
$(BIN)/.second: $(BIN)/.examples
	@$(BIN)/python -c "import importlib.util as u, sys; \
	  sys.exit(not any(map(u.find_spec, ('torch', 'jax'))))" \
	|| { echo "installing JAX for the CPU as second backend (90 MB)"; $(PIP) -e ".[jax]"; }
	touch $@

# The main job on a real program: thousands of asteroids, each call placed where it finishes first.
demo: $(BIN)/.second
	$(BIN)/gpuforge calibrate
	$(BIN)/gpuforge run examples/particle_trajectories.py

# OPTIONS: of pytest, such as "-n 2 --dist loadfile": two files of tests at a time.
test: $(BIN)/.test
	$(BIN)/python -m pytest $(OPTIONS)

# Every operation of every library that is installed, over all dtypes, layouts and special values.
contract: $(BIN)/.test
	$(BIN)/python -m pytest tests/contract tests/runtime/test_lowerings.py -m "not resolve and not create"

check: $(BIN)/.check
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# What exported environments resolve to on the configured index: 360 cases, some ten minutes.
resolve: $(BIN)/.base
	$(PIP) -e ".[uv]"
	$(BIN)/python benchmarks/environments/resolve.py

# Measures on this machine, with the backends that are there; results go to benchmarks/results.
# NPBENCH=CLONE: a clone of NPBench, whose kernels are left out without it (exit status 3).
bench: $(BIN)/.second
	@for question in $(filter-out benchmarks/broken_% benchmarks/healthy_% benchmarks/soak.py,$(wildcard benchmarks/*.py)); do echo "== $$question"; $(BIN)/python $$question || [ $$? = 3 ] || exit 1; done

# Environments of real packages, broken as people break them and healthy ones: is each named, does a
# repair or its undo do harm? An hour, 10 GB and packages of the configured index.
broken: $(BIN)/.test
	$(PIP) -e ".[uv]"
	$(BIN)/python -m pytest -m slow tests/diagnose
	$(BIN)/python benchmarks/broken_environments.py
	$(BIN)/python benchmarks/healthy_environments.py

# 200 processes on one cache, a third of them killed; 100,000 tasks of every kind; then random
# programs, offloaded and plain: PROGRAMS for each of BACKENDS, an hour or several for each 100,000. May be interrupted and started again; what disagrees is in benchmarks/results.
# MINUTES=60: one program for so long instead; does its memory, or the time of its calls, grow?
PROGRAMS ?= 100000
BACKENDS ?= torch,jax
soak: $(BIN)/.test $(BIN)/.second
ifdef MINUTES
	$(PIP) -e ".[serve]"
	$(BIN)/python benchmarks/soak.py --minutes $(MINUTES)
else
	$(BIN)/python benchmarks/kept/processes.py 200
	$(BIN)/python -m tests.runtime.many_tasks --tasks 100000
	$(BIN)/python -m tests.meaning.soak --programs $(PROGRAMS) --backends $(BACKENDS)
endif

# On a machine with a GPU, with the Python whose libraries see it: PYTHON=..., OUT=folder of results.
OUT ?= benchmarks/results/gpu
gpu:
	PYTHON=$(PYTHON) benchmarks/gpu.sh $(OUT)

clean:
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
