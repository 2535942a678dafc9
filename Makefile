# `make help` lists the targets; every target sets up .venv when it is missing or out of date.
PYTHON ?= python3
VENV := .venv
# extras that users install
SHIPPED := fast,neural,postgres,web,dask,demo,wild,excel
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
PYTEST = $(BIN)/python -m pytest -q -n 2 --dist worksteal --ignore tests/site # see docs-check
SPHINX = $(BIN)/sphinx-build -q -W --keep-going
export PIP_DISABLE_PIP_VERSION_CHECK = 1
unexport PYTHONDONTWRITEBYTECODE # test workers share what one of them has compiled
# BLAS threads with nothing to do sleep at once: the test workers need the cores they would wait on
export OPENBLAS_THREAD_TIMEOUT = 4
# the tests' databases lie in memory where there is plenty: thousands of commits wait for no disk
export PYTEST_DEBUG_TEMPROOT ?= $(shell df -Pk /dev/shm 2>/dev/null | awk 'NR == 2 && $$4 > 4000000 {print "/dev/shm"}')
# data sets beside the project are used if they are there; `SUMWISE_DATA=DIR make …` names others
SUMWISE_DATA ?= $(abspath $(wildcard ../shared/data))
export SUMWISE_DATA
# of the random breaks: which sample, and how many of each group of packages
SEED ?= 0
COUNT ?= 80

.PHONY: help setup demo browser browser-here test quick check test-all lint types scripts-test docs docs-links docs-check fmt mutants soak bench repro repro-neural repro-full test-oldest test-newest dist clean
.DEFAULT_GOAL := help

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-12s %s\n", $$1, $$2}'

setup: $(STAMP) ## create .venv with sumwise and everything its tests need

$(STAMP): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[$(SHIPPED),docs,dev]'
	touch $@

demo: $(STAMP) ## the main job on real data: which districts to measure, and what each school is
	$(BIN)/sumwise demo

browser: ## Chromium and axe-core, for the tests of the labelling page
	scripts/browser

# in CI, or where it can be installed without asking, the tests get their browser by themselves;
# elsewhere they are skipped and say how to get it
browser-here:
	@if [ "$(CI)" = true ] || [ "$$(id -u)" = 0 ]; then scripts/browser || [ "$(CI)" != true ]; fi

# lint, types and the site run beside the tests; a failure of any of them fails the target
test: $(STAMP) browser-here ## what must hold before a merge: tests, lint, types, import contracts, the site (minutes)
	@$(MAKE) --no-print-directory -j2 lint types scripts-test docs-check quick

# on one BLAS thread each, for the workers fill the cores: threads that share small matrices mostly
# wait for one another, and tests of models took two and a half times as much of the processor
quick:
	OPENBLAS_NUM_THREADS=1 HYPOTHESIS_PROFILE=quick $(PYTEST) -m "not slow"

check: $(STAMP) browser-here lint types scripts-test docs-check ## the same with the slow tests, and coverage
	$(PYTEST) --cov --cov-report=term

test-all: $(STAMP) browser-here ## all tests, a thousand examples for each property; random breaks of the code (hours)
	HYPOTHESIS_PROFILE=thorough $(PYTEST)
	$(BIN)/python -m tests.random_mutants $(SEED) $(COUNT)

# Warnings that libraries of other years have about one another are theirs: they do not fail these two.
OTHERS = OPENBLAS_NUM_THREADS=1 HYPOTHESIS_PROFILE=quick $(OTHER)/bin/python -m pytest -q -n 3 \
	--dist worksteal -m "not slow" -W ignore::DeprecationWarning -p no:cacheprovider

test-oldest: OTHER := .venv-oldest
test-oldest: browser-here ## the quick tests on the oldest dependencies that pyproject.toml takes
	$(PYTHON) -m venv --clear $(OTHER)
	mkdir -p build && $(PYTHON) -m scripts.oldest >build/oldest.txt
	$(OTHER)/bin/python -m pip install --quiet -c build/oldest.txt -e '.[$(SHIPPED),dev]' httpx # the old test client's
	$(OTHERS)

test-newest: OTHER := .venv-newest
test-newest: browser-here ## the quick tests on the newest ones; `PYTHON=python3.13 make …` on another Python
	$(PYTHON) -m venv --clear $(OTHER)
	$(OTHER)/bin/python -m pip install --quiet -e '.[$(SHIPPED),dev]'
	$(OTHERS)

dist: ## the wheel and the source archive in dist/, checked, installed by themselves and run
	rm -rf dist build/try && $(PYTHON) -m venv --clear .venv-dist
	.venv-dist/bin/python -m pip install --quiet build twine
	.venv-dist/bin/python -m build --outdir dist .
	.venv-dist/bin/python -m twine check --strict dist/*
	$(PYTHON) -m venv --clear build/try
	build/try/bin/python -m pip install --quiet "$$(echo dist/*.whl)[demo]" mypy
	cd build/try && bin/sumwise --version && bin/sumwise demo
	cd build/try && echo 'import sumwise; reveal_type(sumwise.open_study)' >typed.py && bin/python -m mypy typed.py

lint: $(STAMP)
	$(BIN)/ruff check --quiet .
	$(BIN)/ruff format --check --quiet .
	$(BIN)/lint-imports --no-logo
	scripts/javascript lint

types: $(STAMP)
	$(BIN)/mypy

scripts-test:
	scripts/javascript test

docs: $(STAMP) ## the documentation site, in build/site; runs the stories of the gallery (minutes)
	rm -rf build/site docs/reference && OPENBLAS_NUM_THREADS=1 $(SPHINX) docs build/site
	@echo "build/site/index.html"

docs-links: $(STAMP) ## follow the site's links to other hosts, which takes a network; the others are checked by `make test`
	$(BIN)/sphinx-build -q -b linkcheck -D plot_gallery=0 docs build/links

# the same as docs without the stories' results, and what must hold of its pages
docs-check: $(STAMP)
	rm -rf build/site-check docs/reference && $(SPHINX) -D plot_gallery=0 docs build/site-check
	SUMWISE_SITE=build/site-check $(BIN)/python -m pytest -q tests/site

fmt: $(STAMP) ## format the code
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

mutants: $(STAMP) ## break the code on purpose, where each break must make a test fail, and at random (an hour)
	$(BIN)/python -m tests.mutants
	$(BIN)/python -m tests.random_mutants $(SEED) $(COUNT)

soak: $(STAMP) ## crashes, crowds, full disks and bad files, eight times as much as in the tests; ten thousand kills (some hours)
	SUMWISE_SOAK=8 $(BIN)/python -m pytest -q -rP tests/reliability

bench: $(STAMP) ## the benchmark table: ratios to named peers, answers checked first
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[fast,neural,postgres,web,dask,demo,wild,excel,docs,dev,bench]'
	$(BIN)/python -m benchmarks

repro: $(STAMP) ## the paper's table, ten splits of the LIBSVM sets and five climate sets (minutes)
	$(BIN)/sumwise reproduce rff --splits 10 --out reproduction/ten \
		--datasets Abalone,Cadata,Cpu,Housing,Mg,Space,MAT,MAP,DD5,NFFD,RH

repro-neural: $(STAMP) ## the paper's table with neural networks, ten splits of ten data sets (two hours)
	$(BIN)/sumwise reproduce neural --splits 10 --out reproduction/neural \
		--datasets Abalone,Cadata,Cpu,Housing,Mg,Space,MAT,MAP,DD5,NFFD

repro-full: $(STAMP) ## the whole table: 32 data sets, ten methods, fifty splits
	$(BIN)/sumwise reproduce rff --out reproduction/full

clean: ## remove .venv and caches
	rm -rf $(VENV) build docs/reference docs/stories node_modules .cache test-output .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
