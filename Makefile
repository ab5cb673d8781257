# Everything here works on a machine that has Python 3.11 or newer, make and a package index.
PYTHON ?= python3
PORT ?= 8000

TOX := .venv-tox/bin/tox
DEMO := .venv-demo/bin/python
MANAGE := $(DEMO) example_project/manage.py
SOURCES := pyproject.toml $(shell find echomq_django -type f -not -name '*.pyc')

# A user whose index is set for pip means uv too (tox makes its environments with it).
ifdef PIP_INDEX_URL
export UV_DEFAULT_INDEX ?= $(PIP_INDEX_URL)
endif

.PHONY: test quick lint docs bench demo serve worker clean

test: .venv-tox/made  ## every Python and Django pair this machine has, lint and docs
	$(TOX) run

quick: .venv-tox/made  ## one pair, without the slow tests
	$(TOX) run -e py311-django52 -- -m "not slow"

lint docs: .venv-tox/made
	$(TOX) run -e $@

bench: .venv-bench/made  ## how fast it is; PEERS="rq celery" measures these too, ARGS="drain --jobs 5000" less
	.venv-bench/bin/python -m benchmarks $(ARGS) $(if $(PEERS),--peers "$(PEERS)")

demo: .venv-demo/made  ## the example project's orders, from the file to the receipts
	$(MANAGE) migrate --verbosity 0
	$(MANAGE) demo

serve: .venv-demo/made  ## the example project's site and admin
	$(MANAGE) migrate --verbosity 0
	$(MANAGE) people
	$(MANAGE) runserver 127.0.0.1:$(PORT)

worker: .venv-demo/made  ## a worker for the example project
	$(MANAGE) migrate --verbosity 0
	$(MANAGE) echomq_worker

clean:
	rm -rf .venv-tox .venv-demo .venv-bench .tox build dist .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis

# Each environment ends with a file named made, so that an install that was cut off is done again.
.venv-tox/made: Makefile
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed: make PYTHON=python3.11")'
	$(PYTHON) -m venv .venv-tox
	.venv-tox/bin/python -m pip install --quiet "tox>=4.30" "tox-uv>=1.20"
	touch $@

.venv-bench/made: Makefile pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed: make PYTHON=python3.11")'
	$(PYTHON) -m venv .venv-bench
	.venv-bench/bin/python -m pip install --quiet "uv>=0.9"
	.venv-bench/bin/python -m uv pip install --quiet --python .venv-bench/bin/python --editable . --group bench
	touch $@

.venv-demo/made: Makefile $(SOURCES)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed: make PYTHON=python3.11")'
	$(PYTHON) -m venv .venv-demo
	$(DEMO) -m pip install --quiet ".[embedded,demo,hiredis]"
	touch $@
