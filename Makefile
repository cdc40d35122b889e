# The two commands of the README are `make demo` and `make test`. Each makes its own .venv and
# needs Python 3.11+, make and a C++ compiler.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# What runs in two processes; Spark has two of its own.
FAST := not soak and not browser and not azure and not spark

.PHONY: demo demo-spark test test-azure test-browser test-spark lint format protos kernels bench bench-spark fuzz soak clean

$(VENV)/.ready: pyproject.toml $(wildcard alance/kernels/*)
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade pip
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[test,cli,demo]"
	touch $@

demo: $(VENV)/.ready
	$(BIN)/python examples/demo.py

# Spark is installed where there is a Java for it; without, the tests say that they did not run.
$(VENV)/.spark: $(VENV)/.ready
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[spark]"
	touch $@

demo-spark: $(VENV)/.ready
	$(BIN)/python -m alance.spark.java
	$(MAKE) $(VENV)/.spark
	$(BIN)/python -m pip install --quiet --disable-pip-version-check "tpchgen-cli>=2.0"
	$(BIN)/python examples/spark_pipeline.py

test: $(VENV)/.ready
	if $(BIN)/python -m alance.spark.java > $(VENV)/.java 2>&1; then $(MAKE) $(VENV)/.spark; fi
	$(BIN)/pytest -n 2 --dist loadfile -m "$(FAST)"
	if grep -q '^/' $(VENV)/.java; then $(BIN)/pytest -m spark tests/spark; fi
	@grep -q '^/' $(VENV)/.java || { echo "The Spark tests did not run:"; cat $(VENV)/.java; }
	@echo "The tests of pages in a browser did not run: make test-browser"
	@echo "The tests of Azure did not run: make test-azure (needs node and npm)"

# Needs a Chromium on the machine (apt-get install chromium); downloads none.
test-browser: $(VENV)/.ready
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[browser]"
	$(BIN)/pytest -m browser tests/viz

# Azurite, Microsoft's emulator, comes by npm.
$(VENV)/azurite/.ready:
	@command -v node >/dev/null && command -v npm >/dev/null || { echo \
	  "The tests of Azure need node and npm (apt-get install nodejs npm): they run Azurite." >&2; \
	  exit 1; }
	npm install --prefix $(VENV)/azurite --no-audit --no-fund --loglevel=error azurite@3.37.0
	touch $@

test-azure: $(VENV)/azurite/.ready $(VENV)/.ready
	AZURITE_HOME=$(VENV)/azurite $(BIN)/pytest -m azure tests/azure

# One Spark session on two cores; fails where there is no Java.
test-spark: $(VENV)/.ready
	$(BIN)/python -m alance.spark.java
	$(MAKE) $(VENV)/.spark
	$(BIN)/pytest -m spark tests/spark

lint: $(VENV)/.spark
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

# Beside Spark's Parquet and alance without Spark; needs Java.
bench-spark: $(VENV)/.ready
	$(BIN)/python -m alance.spark.java
	$(MAKE) $(VENV)/.spark
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[bench]"
	$(BIN)/python -m benchmarks.spark

# Damaged files and random bytes, 200 times as many as `make test` tries.
fuzz: $(VENV)/.ready
	$(BIN)/pytest --hypothesis-profile=soak --timeout 7200 tests/bad_input tests/format tests/kernels

soak: $(VENV)/.ready
	$(BIN)/pytest -m soak --timeout 7200

clean:
	rm -rf $(VENV) build .mypy_cache .ruff_cache .pytest_cache .hypothesis
