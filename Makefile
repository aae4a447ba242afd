# Every target sets up what it needs: a virtual environment in .venv, from pyproject.toml and constraints.txt.
PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.installed
PYKEEN := .venv/.pykeen
IO := .venv/.io

.PHONY: demo reproduce fuzz test test-portable test-slow test-gpu test-pykeen test-io test-tune test-browser test-package check lint types layers docs format clean

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[dev]"
	touch $(STAMP)

demo: $(STAMP)  ## train on the embedded graph and look at predictions
	$(BIN)/python examples/demo.py

SUITE := $(BIN)/python -m pytest -n auto --dist worksteal -m "not slow and not gpu and not browser"

test: $(STAMP)  ## every test, with coverage, on all cores
	OMP_NUM_THREADS=$${OMP_NUM_THREADS:-1} $(SUITE) --cov --cov-report=term

# Two machines as unlike as one processor can play: threads, vector instructions, locale, time zone, hashes, terminal.
PLAIN := OMP_NUM_THREADS=2 ATEN_CPU_CAPABILITY=default NUMBA_CPU_NAME=generic \
	LC_ALL=C PYTHONUTF8=0 PYTHONWARNDEFAULTENCODING=1 TZ=Pacific/Kiritimati PYTHONHASHSEED=1 COLUMNS=40 NO_COLOR=1
MODERN := OMP_NUM_THREADS=1 ATEN_CPU_CAPABILITY=avx2 \
	LC_ALL=C.UTF-8 PYTHONUTF8=1 TZ=America/St_Johns PYTHONHASHSEED=4294967295 COLUMNS=200 FORCE_COLOR=1

test-portable: $(STAMP)  ## every test on two unlike machines that the environment plays; stops at the first that fails
	$(PLAIN) NUMBA_CACHE_DIR=$(CURDIR)/.venv/numba-plain $(SUITE) || { echo "failed under: $(PLAIN)"; exit 1; }
	$(MODERN) NUMBA_CACHE_DIR=$(CURDIR)/.venv/numba-modern $(SUITE) || { echo "failed under: $(MODERN)"; exit 1; }

test-slow: $(STAMP)  ## tests that take minutes
	$(BIN)/python -m pytest -m slow

test-gpu: $(STAMP)  ## tests that need a CUDA device
	TRITON_INTERPRET=0 $(BIN)/python -m pytest -m gpu

$(PYKEEN): $(STAMP)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[dev,pykeen]"
	touch $(PYKEEN)

test-pykeen: $(PYKEEN)  ## tests of the PyKEEN plug-in, against the released PyKEEN, with its bundled datasets
	$(BIN)/python -m pytest tests/interop/pykeen src/staypositive/interop/pykeen src/staypositive/interop/pykeen_datasets.py \
		"tests/test_docs.py::test_python_blocks_run[pykeen.md]"

$(IO): $(STAMP)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[dev,io]" \
		onnxruntime polars rdflib
	touch $(IO)

test-io: $(IO)  ## every reader and every export, with what is optional installed: Parquet, RDF, zstd, ONNX, polars
	$(BIN)/python -m pytest tests/graph tests/interop tests/cli/test_export.py tests/training/test_weights.py \
		src/staypositive/graph src/staypositive/interop \
		"tests/test_docs.py::test_python_blocks_run[your-data.md]" "tests/test_docs.py::test_python_blocks_run[export.md]"

test-tune: $(STAMP)  ## tests of the search and of the trackers, with Optuna, TensorBoard and MLflow
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[dev,tune,track]"
	$(BIN)/python -m pytest tests/tuning tests/interop/test_trackers.py src/staypositive/tuning src/staypositive/interop/trackers.py \
		"tests/test_docs.py::test_python_blocks_run[tune.md]"

test-browser: $(STAMP)  ## explorer and report in headless Chromium, with pictures in site/pictures; needs chromium and chromedriver
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[browser]"
	STAYPOSITIVE_PICTURES=site/pictures $(BIN)/python -m pytest -m browser tests/service tests/reports

test-package: $(STAMP)  ## wheel and sdist: what is in them, and the wheel at work in an environment of its own
	$(BIN)/python -m pytest tests/test_package.py

WHAT ?= all --dry-run
reproduce: $(STAMP)  ## the paper's experiments: `make reproduce` shows the plan, `make reproduce WHAT=figure1` runs a part
	$(BIN)/python -m experiments reproduce $(WHAT)  # parts and options: .venv/bin/python -m experiments reproduce --help

FUZZ_CASES ?= 100000
FUZZED := readers headers columns runs checkpoints shards configs service
fuzz: $(STAMP)  ## files, folders, settings and requests, mutated: so many cases of each target, in some minutes each
	for target in $(FUZZED); do \
		$(BIN)/python scripts/fuzz.py $$target --cases $(FUZZ_CASES) || exit 1; done

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/vermin --quiet --target=3.10- --eval-annotations --no-tips --violations src experiments scripts tests examples

types: $(STAMP)
	$(BIN)/mypy

layers: $(STAMP)
	$(BIN)/lint-imports

docs: $(STAMP)  ## build the documentation into site/
	$(BIN)/python -m experiments tables --check
	$(BIN)/mkdocs build --strict --quiet

check: lint types layers docs test  ## every gate, for people and for CI

format: $(STAMP)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf .venv site .mypy_cache .ruff_cache .pytest_cache .hypothesis .coverage
