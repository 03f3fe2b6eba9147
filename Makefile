# Everything a newcomer needs: each target sets up its own .venv first, once.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
SIM2REAL := $(BIN)/sim2real
# Seconds of walking in `make walk`; 0 walks until Ctrl-C.
DURATION ?= 20
PIP := $(BIN)/pip --disable-pip-version-check -q install -c constraints.txt
# The vendor SDK's own requirements pin a DDS version without wheels: it is installed by itself.
VENDOR_SDK := unitree-sdk2==1.0.1

.PHONY: help install walk test test-jazzy check docs faults bench gate soak train clean

help:  ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):[^#]*## (.*)/  make \1	\2/'

$(VENV)/.installed: setup.py constraints.txt Makefile
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10) and "Python 3.10 or newer is needed: make PYTHON=python3.11 ...")'
	@echo "setting up $(VENV): about a minute, once"
	@$(PYTHON) -m venv $(VENV) || { echo "no venv module: apt-get install python3-venv"; exit 1; }
	@$(PIP) pip  # an old one, as Python 3.10 brings, tries release after release
	@$(PIP) -e '.[ros,sim,dev]'
	@$(PIP) --no-deps $(VENDOR_SDK)
	@touch $@

$(VENV)/.trainer: $(VENV)/.installed
	@echo "adding what training needs (torch): another minute, once"
	@$(PIP) -e '.[ros,sim,dev,train]'
	@touch $@

install: $(VENV)/.installed  ## set up .venv and no more

walk: $(VENV)/.installed  ## the twin stands up, walks, sits down (DURATION=20)
	@$(SIM2REAL) up walk_programme domain:=free stage:=indoor duration:=$(DURATION)

check: $(VENV)/.trainer  ## ruff, mypy, and who may import whom
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

# These rooms compute only, and share two cores. The others bring up real processes at 500 Hz, one
# test after the other; such a test that fails is tried again, and the summary says how many were.
COMPUTE := $(addprefix test/,analysis bench gate identify policy project robots safety training)
PYTEST := $(BIN)/python -m pytest -m 'not slow' --reruns 2 --reruns-delay 3

test: check  ## the test suite, under 10 minutes on 2 cores (ROOM=wire: one room)
ifdef ROOM
	$(PYTEST) test/$(ROOM)
else
	$(PYTEST) --numprocesses 2 --dist worksteal $(COMPUTE)
	$(PYTEST) $(addprefix --ignore=,$(COMPUTE)) test
endif

docs: $(VENV)/.installed  ## the documentation site, into site/
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

# Another ROS 2, and no DDS from PyPI: whatever libddsc the system has (apt-get install
# libddsc0debian) carries the wire.
JAZZY := .venv-jazzy
$(JAZZY)/.installed: setup.py constraints.txt Makefile
	@$(PYTHON) -m venv $(JAZZY)
	@$(JAZZY)/bin/pip --disable-pip-version-check -q install -e '.[sim,test]' \
	  'ros-rclpy[fastrtps]==7.1.6' ros-common-interfaces==5.3.6
	@$(JAZZY)/bin/pip --disable-pip-version-check -q uninstall -y cyclonedds
	@touch $@

test-jazzy: $(JAZZY)/.installed  ## nodes, bags and wire on ROS 2 Jazzy and the system's DDS
	$(JAZZY)/bin/python -m pytest -m 'not slow' --reruns 2 --reruns-delay 3 \
	  test/wire test/nodes test/bags test/bringup test/control/test_process.py

faults: $(VENV)/.installed  ## inject every fault, measure the time to damping on the wire
	$(SIM2REAL) faults --json runs/faults.json

bench: $(VENV)/.installed  ## wire, twin and control against the usual way
	$(SIM2REAL) bench wire --json runs/bench_wire.json
	$(SIM2REAL) bench twin --json runs/bench_twin.json
	$(SIM2REAL) bench control --json runs/bench_control.json

gate: $(VENV)/.installed  ## the shipped policy through every scenario of the gate
	$(SIM2REAL) eval go2_walk --json runs/gate.json --html runs/gate.html

soak: $(VENV)/.trainer  ## the slow tests: minutes each
	$(BIN)/python -m pytest -m slow --timeout 3600

train: $(VENV)/.trainer  ## train the walking policy from nothing, 25 minutes
	$(SIM2REAL) train config/training/go2_walk.yaml

clean:  ## take away what make made
	rm -rf $(VENV) $(JAZZY) build install log site *.egg-info
