# First contact: `make demo`, then `make test`. Every target makes the environment that it needs, once.
.POSIX:
.DEFAULT_GOAL := help

PY = .venv/bin/python
CODE = src tests benchmarks scripts
# The quick tests: those of functions, promises and generated inputs, the pages' docstrings, and a few journeys.
JOURNEYS = $(addprefix tests/journeys/,test_frames.py test_exact_conditions.py test_kept_apart.py test_python_door.py \
  test_refusals_before_data.py test_reuse.py test_joins.py test_money.py test_small_refusals.py test_fixes_work.py \
  server/test_who_may.py server/test_fixes_over_http.py)
TESTS ?= tests/unit tests/contract tests/property tests/docs $(JOURNEYS)
QUICK = not slow and not statistical and not spark and not postgres and not web
ALL_TESTS ?= tests
WORKERS ?= 2
PYTEST_ARGS ?=
BENCH_ARGS ?=
PINS := $(wildcard constraints/*.txt)

.PHONY: help demo test test-all check docs bench ci clean

help:  ## Show the targets
	@sed -n 's/^\([a-z-]*\):.*## /  make \1\t/p' Makefile

.venv/.core: pyproject.toml scripts/environment.sh $(PINS)
	@sh scripts/environment.sh core

.venv/.dev: pyproject.toml scripts/environment.sh $(PINS)
	@sh scripts/environment.sh dev

demo: .venv/.core  ## Install into .venv and answer private questions about three clinics
	@.venv/bin/siloquent demo

test: .venv/.dev  ## Run the quick tests (TESTS=tests/unit WORKERS=2 PYTEST_ARGS=...)
	@$(PY) -m pytest -n $(WORKERS) --dist loadscope -m "$(QUICK)" $(PYTEST_ARGS) $(TESTS)

test-all: .venv/.dev  ## Run every test, those with real databases, browsers and proxies too (ALL_TESTS=... as above)
	@$(PY) -m pytest -n $(WORKERS) --dist loadscope $(PYTEST_ARGS) $(ALL_TESTS)

check: .venv/.dev  ## Style, types, import contracts and circles, bans, bounds and licences
	$(PY) -m ruff check $(CODE)
	$(PY) -m ruff format --check $(CODE)
	$(PY) -m mypy
	$(PY) -c 'from importlinter.cli import lint_imports_command as run; run()'
	$(PY) -m scripts.static_bans
	$(PY) -m scripts.import_circles
	$(PY) -m scripts.check_dependencies

docs: .venv/.dev  ## Build the site into site/ and run every code block in it
	$(PY) -m scripts.make_reference
	NO_MKDOCS_2_WARNING=1 $(PY) -m mkdocs build --quiet --strict
	$(PY) -m pytest tests/docs

bench: .venv/.dev  ## Our figures beside the published ones (BENCH_ARGS="--quick")
	$(PY) -m benchmarks core $(BENCH_ARGS)
	$(PY) -m benchmarks explore $(BENCH_ARGS)

ci: ## What continuous integration runs
	bash .ci/run

clean:  ## Remove what was built; .venv too
	rm -rf .venv site dist build ci-out .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	rm -rf spark-warehouse metastore_db derby.log
