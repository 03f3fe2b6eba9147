# Everything a newcomer needs: each target sets up its own .venv first, once.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
PIP := $(BIN)/pip --disable-pip-version-check -q
# The vendor SDK's own requirements pin a DDS version without wheels: it is installed by itself.
VENDOR_SDK := unitree-sdk2==1.0.1

.PHONY: help walk test check install train clean

help:  ## what there is
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):[^#]*## /  make \1\t/'

$(STAMP): setup.py constraints.txt Makefile
	@$(PYTHON) -c 'import sys; sys.exit("Python 3.10 or newer is needed, this is %d.%d: make PYTHON=python3.11" % sys.version_info[:2] if sys.version_info < (3, 10) else 0)'
	@echo "setting up $(VENV) (about a minute, once)"
	@$(PYTHON) -m venv $(VENV) || { echo "python3 -m venv failed: apt-get install python3-venv"; exit 1; }
	@$(PIP) install -c constraints.txt -e '.[ros,sim,dev]'
	@$(PIP) install --no-deps $(VENDOR_SDK)
	@touch $@

install: $(STAMP)  ## set up .venv

check: $(STAMP)  ## ruff and mypy
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

test: check  ## the test suite
	$(BIN)/python -m pytest -m 'not slow'

clean:  ## take away what make made
	rm -rf $(VENV) build install log *.egg-info
