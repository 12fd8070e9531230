# make crawl                          crawl the built-in site with two nodes
# make crawl SEEDS=URL|FILE NODES=3   crawl the web from seeds of yours
# make test, make lint                what .ci/run does
# make bench                          every benchmark in its short form, three minutes
# make chaos                          kill, freeze, cut and damage: a dozen minutes
# make damage                         garbage in each key of the store, ten minutes
# make mutants                        change the code: which change no test notices, an hour
# make compat                         other people's spiders, plug-ins, tools and tests
# make lock                           write again which versions .ci/run installs
# make audit                          ask for known vulnerabilities of those
# make clean                          remove caches; crawls, archives and .venv stay

PYTHON ?= python3
NODES ?= 2
WORKERS ?= 2
BIN = .venv/bin
PIP = $(BIN)/python -m pip -qq --disable-pip-version-check

# With LOCKED=yes, as in .ci/run, what is installed has the versions of .ci/locks.
locked = $(if $(LOCKED),--constraint .ci/locks/$(1).txt)

.PHONY: crawl test bench chaos damage mutants compat compat-short lint lock audit clean

crawl: .venv/.installed-run
ifdef SEEDS
	@$(BIN)/frontier crawl run --seeds "$(SEEDS)" --nodes $(NODES)
else
	@$(BIN)/frontier demo --nodes $(NODES)
endif

test: .venv/.installed-dev
	$(BIN)/python -m pytest -q -n $(WORKERS) --dist worksteal

bench: .venv/.installed-dev
	$(BIN)/python -m pytest -q -m bench tests/test_benchmarks.py

chaos: .venv/.installed-dev
	$(BIN)/python -m pytest -q --durations=1 -m chaos tests/chaos
	$(BIN)/python -m pytest -q -n $(WORKERS) --dist worksteal -m chaos \
	  tests/node tests/integration tests/hostile tests/postcrawl

damage: .venv/.installed-dev
	DAMAGE=all $(BIN)/python -m pytest -q -n $(WORKERS) --dist worksteal -m chaos \
	  tests/node/test_damage.py tests/integration/test_damage.py

mutants: .venv/.installed-dev
	$(BIN)/python -m tests.mutants --workers $(WORKERS)

compat: .venv-compat/.installed
	.venv-compat/bin/python tests/compat

compat-short: .venv-compat/.installed
	.venv-compat/bin/python tests/compat --short

lint: .venv/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python .ci/words.py

lock: .venv/bin/python
	$(BIN)/python .ci/lock.py dev .ci/locks/dev.txt
	$(BIN)/python .ci/lock.py dev,compat .ci/locks/compat.txt

audit: .venv-audit/.installed
	.venv-audit/bin/python .ci/audit.py .ci/locks/dev.txt .ci/locks/compat.txt

clean:
	rm -rf build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -path ./.venv -prune -o -name __pycache__ -type d -exec rm -rf {} +

.venv/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "frontier needs Python 3.11 or newer; $(PYTHON) is" \
	    "$$($(PYTHON) --version 2>&1). Try: make PYTHON=python3.12 $(MAKECMDGOALS)" >&2; \
	  exit 1; }
	@$(PYTHON) -m venv .venv || { rm -rf .venv; \
	  echo "$(PYTHON) cannot make a venv; Debian has that in python3-venv" >&2; exit 1; }

.venv/.installed-run: pyproject.toml | .venv/bin/python
	@echo "installing into .venv ..."
	@$(PIP) install $(call locked,dev) --editable .
	@touch $@

.venv/.installed-dev: pyproject.toml | .venv/bin/python
	@echo "installing into .venv, with the tools for tests ..."
	@$(PIP) install $(call locked,dev) --editable '.[dev]'
	@touch .venv/.installed-run $@

.venv-compat/.installed: pyproject.toml
	@echo "installing into .venv-compat, with what others wrote ..."
	@$(PYTHON) -m venv .venv-compat
	@.venv-compat/bin/python -m pip -qq --disable-pip-version-check \
	  install $(call locked,compat) --editable '.[dev,compat]'
	@touch $@

.venv-audit/.installed:
	@$(PYTHON) -m venv .venv-audit
	@.venv-audit/bin/python -m pip -qq --disable-pip-version-check \
	  install 'pip-audit>=2.9,<3'
	@touch $@
