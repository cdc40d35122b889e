# The two commands of the README are `make demo` and `make test`. Each makes its own .venv and
# needs Python 3.11+, make and a C++ compiler.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
SOURCES := alance tests examples $(wildcard benchmarks)

.PHONY: demo test test-browser lint format protos kernels bench fuzz soak clean

$(VENV)/.ready: pyproject.toml $(wildcard alance/kernels/*)
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade pip
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[test,cli]"
	touch $@

demo: $(VENV)/.ready
	$(BIN)/python examples/demo.py

test: $(VENV)/.ready
	$(BIN)/pytest
	@echo "The tests of pages in a browser did not run: make test-browser"

# Needs a Chromium on the machine (apt-get install chromium); downloads none.
test-browser: $(VENV)/.ready
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[browser]"
	$(BIN)/pytest -m browser tests/viz

lint: $(VENV)/.ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(VENV)/.ready
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# Regenerates alance/format/proto; a test compares the committed files with its output.
protos: $(VENV)/.ready
	PYTHON=$(BIN)/python protos/generate.sh

bench: $(VENV)/.ready
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[bench]"
	$(BIN)/python -m benchmarks

# Damaged files and random bytes, 200 times as many as `make test` tries.
fuzz: $(VENV)/.ready
	$(BIN)/pytest --hypothesis-profile=soak --timeout 7200 tests/bad_input tests/format tests/kernels

soak: $(VENV)/.ready
	$(BIN)/pytest -m soak --timeout 7200

clean:
	rm -rf $(VENV) build .mypy_cache .ruff_cache .pytest_cache .hypothesis
