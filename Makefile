# The whole developer interface. A fresh machine needs python3 >= 3.11 and make; for Spark a
# JDK of 17 or newer, for the compiled build a C compiler with Python.h. Everything else is
# installed into .venv.

PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
# Absolute: tests start programs in other folders.
COMPILED := $(CURDIR)/.build/compiled
LOG := .build/interpreted.log
TIMED := $(BIN)/python tools/timed.py
WORKERS ?= 2
# Tests start hundreds of Pythons: without bytecode each would compile all that it imports.
unexport PYTHONDONTWRITEBYTECODE
# What passed is left out while nothing changes, but not in CI and not with FORCE=1.
UNCHANGED := $(BIN)/python tools/unchanged.py
COVERAGE := $(CURDIR)/.build/coverage
# Interpreted, the tests keep their files in memory where there is room, and wait for no disk.
MEMORY := $(shell [ "$$(df -Pk /dev/shm 2> /dev/null | awk 'NR == 2 { print $$4 }')" -gt 4000000 ] \
  2> /dev/null && echo /dev/shm)
# Apache Pulsar is fetched where it is required, while something else computes.
APACHE := $(if $(filter apache,$(MAGNETAR_REQUIRE)),apache)
# What runs interpreted too: the rooms that are compiled, and the simulation of all. Command line,
# REST, Spark and peers are shells around them, which are never compiled and so are tested once;
# but only a backup mends what it copies, which is storage's.
INTERPRETED := tests/wire tests/model tests/protocol tests/ack tests/storage tests/broker \
  tests/client tests/sim tests/arrow/plan tests/spark/plan tests/cli/data/test_backup.py tests/test_front_door.py src

# Of these rooms every branch must have been taken, of storage and of all nearly every one.
REPORT := $(BIN)/python -m coverage report --data-file=$(COVERAGE)
COVERED := */magnetar/wire/*,*/magnetar/model/*,*/magnetar/protocol/*,*/magnetar/ack/*

.PHONY: help demo test apache steady test-compiled test-interpreted check check-parts bench build clean test-long sim compiled sweep format proto reference docs lock newcomer installed audit sbom jepsen

help:
	@echo 'make demo       all of it at work in two minutes; KEEP=1 leaves the broker running'
	@echo 'make test       set up, check, and test: compiled, and interpreted beside it'
	@echo 'make check      format, lint, types, generated files'
	@echo 'make bench      benchmarks, compiled'
	@echo 'make test-long  the long forms: more examples, fuzzing'
	@echo 'make steady     tests that could depend on time, again and again beside other work'
	@echo 'make sim        broker and clients simulated: SEED=n repeats a run, N=1000 searches'
	@echo 'make jepsen     real clients, kills, full disks and cuts: MINUTES=60'
	@echo 'make build      compiled and pure wheels, in dist/'
	@echo 'make sbom       what a release needs to run, as CycloneDX, in dist/'
	@echo 'make format     let ruff rewrite what it can'
	@echo 'make proto      regenerate pulsar_pb2 from pulsar.proto'
	@echo 'make reference  write what docs/reference says of the code'
	@echo 'make docs       a site of the documentation with search, in .build/site'
	@echo 'make lock       resolve the pinned requirements anew'
	@echo 'make installed  pip install, with a C compiler and without'
	@echo 'make newcomer   fresh clones in an empty HOME: make installed, make demo, make test'
	@echo 'make clean      remove everything that is built or installed here'

demo: $(READY) sweep
	@$(BIN)/python tools/find_java.py --install > /dev/null
	@$(BIN)/python tools/compile.py --if-quick
	@$(BIN)/python tools/compile.py --current && path=$(COMPILED) || path=src; \
	  PYTHONPATH=$$path $(BIN)/python -m examples.demo $(if $(KEEP),--keep)

# Side by side: the C compiler and the checks. Then both kinds of tests, one after the other: each
# has workers enough for both cores, and Spark's workers have 10 s to answer.
test: $(READY) sweep
	@$(TIMED) --begin
	@# Spark needs Java; without it its tests are skipped, unless MAGNETAR_REQUIRE names spark.
	@$(BIN)/python tools/find_java.py --install > /dev/null || true
	@# INSTALL=1 installs what other tests use: chromium, Prometheus. Else a line says what is missing.
	@INSTALL=$(INSTALL) $(BIN)/python tools/programs.py
	@$(MAKE) --no-print-directory -j3 $(APACHE) compiled check && \
	  $(MAKE) --no-print-directory -k test-interpreted test-compiled; \
	  code=$$?; $(TIMED) --table; exit $$code
	@$(REPORT) --fail-under=100 --include='$(COVERED)'
	@$(REPORT) --fail-under=99 --include='*/magnetar/storage/*' \
	  --omit="$$($(BIN)/python tools/shells.py)"
	@$(REPORT) --fail-under=97 --omit="$$($(BIN)/python tools/shells.py)"

apache: $(READY)
	@$(TIMED) 'Apache Pulsar, fetched' $(BIN)/python tests/apache/artifacts.py

# A file's tests run in one worker, Spark's too: tests/conftest.py says how they are shared.
test-compiled: compiled $(APACHE)
	@if [ -d $(COMPILED) ]; then \
	  MAGNETAR_BUILD=compiled PYTHONPATH=$(COMPILED) $(TIMED) 'tests, compiled' \
	    $(UNCHANGED) compiled $(BIN)/python -m pytest -q -n $(WORKERS) --durations=10 \
	    --hypothesis-profile=brief tests; \
	fi

# The rooms of which coverage is asked, and what runs otherwise interpreted than compiled;
# everything where nothing is compiled.
test-interpreted: $(READY)
	@mkdir -p .build
	@$(BIN)/python tools/compile.py --possible && { paths="$(INTERPRETED)"; once=1; } \
	  || { paths="tests src"; once=; }; \
	  echo "== tests, interpreted, with coverage: $(LOG)"; \
	  MAGNETAR_BUILD=interpreted MAGNETAR_ONCE=$$once MAGNETAR_FAULT_ROUNDS=10 MAGNETAR_SIM_SEEDS=4 \
	    PYTEST_DEBUG_TEMPROOT=$(MEMORY) \
	    $(TIMED) 'tests, interpreted' $(UNCHANGED) interpreted $(BIN)/python tools/covered.py \
	    $(COVERAGE) $(BIN)/python -m pytest -q -n $(WORKERS) --hypothesis-profile=terse \
	    -o tmp_path_retention_policy=failed \
	    --doctest-modules $$paths > $(LOG) 2>&1; \
	  code=$$?; cat $(LOG); exit $$code

check: $(READY) sweep audit
	@$(TIMED) check $(MAKE) --no-print-directory check-parts

# What is known to be wrong with what is pinned; without an index to ask this says so and goes on.
audit: $(READY)
	@$(MAKE) --no-print-directory .venv/.supply-ready > /dev/null 2>&1 || true
	@$(BIN)/python tools/audit.py

# What a release is made of, for those who must know: a CycloneDX list of what it needs to run.
sbom: .venv/.supply-ready
	@mkdir -p dist
	@PYTHONWARNINGS=ignore .venv/supply/bin/cyclonedx-py requirements requirements/runtime.lock \
	  --pyproject pyproject.toml --mc-type application --output-reproducible --of JSON -o dist/magnetar.cdx.json
	@echo 'wrote dist/magnetar.cdx.json'

# Real processes and real trouble for MINUTES, judged by the checkers of the simulation.
MINUTES ?= 60
jepsen: compiled
	@[ -d $(COMPILED) ] && path=$(COMPILED) || path=src; \
	  MAGNETAR_APACHE_LONG=1 PYTHONPATH=$$path:tests \
	  $(BIN)/python tests/jepsen/run.py --minutes $(MINUTES) $(if $(SEED),--seed $(SEED))

check-parts:
	@$(BIN)/ruff format --check --quiet .
	@$(BIN)/ruff check --quiet .
	@$(BIN)/mypy
	@$(BIN)/python tools/generate_proto.py --check
	@$(BIN)/python tools/verify_types.py

bench: compiled
	@for bench in benchmarks/bench_*.py; do \
	  PYTHONPATH=$(COMPILED) $(BIN)/python $$bench || exit 1; \
	done

test-long: test .venv/.fuzz-ready
	@echo '== long: more examples, compiled'
	@if [ -d $(COMPILED) ]; then \
	  MAGNETAR_BUILD=compiled PYTHONPATH=$(COMPILED) \
	  MAGNETAR_KILL_ROUNDS=200 MAGNETAR_TRANSACTION_KILLS=60 MAGNETAR_FAULT_ROUNDS=2000 MAGNETAR_SIM_SEEDS=2000 \
	  MAGNETAR_STORY_MESSAGES=200000 MAGNETAR_SCHEMA_EXAMPLES=20 MAGNETAR_APACHE_LONG=1 MAGNETAR_CLUSTER=1 \
	  MAGNETAR_MIGRATE_KILLS=10 \
	  MAGNETAR_CHAOS_MESSAGES=50000 MAGNETAR_CHAOS_SECONDS=60 MAGNETAR_WHEEL_EXTRAS=arrow,avro,otel,spark \
	  MAGNETAR_ARCHIVE_MESSAGES=200000 MAGNETAR_PIPELINE_KILLS=20 \
	  MAGNETAR_TRANSACTION_MESSAGES=100000 MAGNETAR_TRANSACTION_KILLS=20 \
	  MAGNETAR_HOSTILE_LONG=1 MAGNETAR_HOSTILE_STRICT=1 MAGNETAR_REPRODUCIBLE=1 MAGNETAR_INSTALLED=1 \
	    $(BIN)/python -m pytest -q --hypothesis-profile=long tests; \
	fi
	@echo '== long: everything interpreted'
	@MAGNETAR_BUILD=interpreted MAGNETAR_SIM_PLANT_SEEDS=5000 PYTHONPATH=src \
	  $(BIN)/python -m pytest -q -n $(WORKERS) --hypothesis-profile=ci --doctest-modules tests src
	@$(MAKE) --no-print-directory jepsen
	@echo '== long: fuzzing'
	@PYTHONPATH=src .venv/fuzz/bin/python tests/fuzz/run.py \
	  --seconds $${MAGNETAR_FUZZ_SECONDS:-120}
	@if [ -d $(COMPILED) ]; then \
	  PYTHONPATH=$(COMPILED) $(BIN)/python tests/fuzz/run.py --blind --seed $$(date +%s) \
	    --seconds $${MAGNETAR_FUZZ_SECONDS:-120}; \
	fi

# One seed runs interpreted, for breakpoints; a search runs compiled, on all cores or JOBS of
# them. Traces are the same.
N ?= 1000
FIRST ?= 0
sim: $(READY) $(if $(SEED),,compiled)
ifdef SEED
	@PYTHONPATH=src:tests $(BIN)/python tests/sim/search.py --seed $(SEED) $(if $(TRACE),--trace) \
	  $(if $(MINIMISE),--minimise) $(if $(PLANT),--plant '$(PLANT)')
else
	@[ -d $(COMPILED) ] && path=$(COMPILED) || path=src; \
	  PYTHONPATH=$$path:tests $(BIN)/python tests/sim/search.py --first $(FIRST) --count $(N) \
	    $(if $(JOBS),--jobs $(JOBS)) $(if $(AGAIN),--again) $(if $(LIFE),--life $(LIFE)) \
	    $(if $(GUIDED),--guided) $(if $(CORPUS),--corpus)
endif

# Again and again beside other work: a test that fails then waits for time, not for what it needs.
RUNS ?= 30
TIMING := tests/client tests/chaos tests/hostile tests/cli tests/admin tests/peer
steady: compiled
	@MAGNETAR_BUILD=compiled PYTHONPATH=$(COMPILED) $(BIN)/python tools/steady.py --runs $(RUNS) \
	  $(or $(TESTS),$(TIMING)) -- --hypothesis-profile=brief

build: $(READY)
	@rm -rf dist
	@$(BIN)/python tools/compile.py --wheels dist

compiled: $(READY)
	@$(TIMED) compile $(BIN)/python tools/compile.py

sweep:
	@find src -name '*.so' -o -name '*.pyd' | while read -r file; do \
	  echo "removing $$file: compiled files do not belong in src/"; rm -f "$$file"; \
	done

format: $(READY)
	@$(BIN)/ruff check --quiet --fix . ; $(BIN)/ruff format --quiet .

proto: $(READY)
	@$(BIN)/python tools/generate_proto.py

reference: $(READY)
	@$(BIN)/python tools/reference.py

# A site of what is written here; links that lead nowhere fail it.
docs: .venv/.docs-ready
	@$(BIN)/python tools/site_pages.py
	@NO_MKDOCS_2_WARNING=1 .venv/docs/bin/mkdocs build --quiet --strict
	@echo 'wrote .build/site: see it with $(BIN)/python -m http.server -d .build/site'

lock: $(READY)
	@$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --upgrade \
	  requirements/bootstrap.in -o requirements/bootstrap.lock
	@for group in dev fuzz; do \
	  $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --upgrade \
	    pyproject.toml --group $$group -o requirements/$$group.lock; \
	done
	@$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
	  --all-extras -c requirements/dev.lock pyproject.toml -o requirements/runtime.lock
	@$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --upgrade \
	  --group supply -o requirements/supply.lock
	@$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --upgrade \
	  --group docs -o requirements/docs.lock

# What somebody meets who has just cloned this: nothing installed, nothing configured.
newcomer:
	@$(PYTHON) tools/newcomer.py

# In environments of its own, and with pip as this machine has it.
installed:
	@$(PYTHON) tools/installed.py

clean:
	rm -rf .venv .build dist .coverage .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(READY): requirements/bootstrap.lock requirements/dev.lock pyproject.toml
	@echo '== setting up .venv'
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo 'Python 3.11 or newer is needed: make PYTHON=/path/to/python3'; exit 1; }
	@[ -x $(BIN)/python ] || $(PYTHON) -m venv .venv
	@$(BIN)/python -m pip install --quiet --require-hashes -r requirements/bootstrap.lock
	@$(BIN)/uv pip sync --python $(BIN)/python --require-hashes \
	  requirements/bootstrap.lock requirements/dev.lock
	@$(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation -e .
	@touch $@

.venv/.supply-ready: $(READY) requirements/supply.lock
	@$(BIN)/uv venv --quiet --clear --python $(BIN)/python .venv/supply
	@$(BIN)/uv pip sync --python .venv/supply/bin/python --require-hashes requirements/supply.lock
	@touch $@

.venv/.fuzz-ready: $(READY) requirements/fuzz.lock
	@$(BIN)/uv venv --quiet --clear --python $(BIN)/python .venv/fuzz
	@$(BIN)/uv pip sync --python .venv/fuzz/bin/python --require-hashes requirements/fuzz.lock
	@touch $@

.venv/.docs-ready: $(READY) requirements/docs.lock
	@$(BIN)/uv venv --quiet --clear --python $(BIN)/python .venv/docs
	@$(BIN)/uv pip sync --python .venv/docs/bin/python --require-hashes requirements/docs.lock
	@touch $@
