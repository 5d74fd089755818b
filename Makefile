# Every target does its own set-up: a virtual environment in .venv, then the install that the target needs.
#   make demo              a decision from the packaged pictures, with its evidence and its page
#   make test              light: no torch, no GL; what is skipped is listed
#   make test EXTRAS=all   everything, as CI runs it
#   make world             a mug taken by its rim in physics, filmed (out/mug.gif)
#   make study             the data set, the methods that need no model, and the report (about ten minutes on 2 cores)
VENV ?= .venv
PYTHON ?= python3
EXTRAS ?=
PY := $(VENV)/bin/python
PIP := $(PY) -m pip install --quiet --disable-pip-version-check -c constraints.txt

comma := ,
ALL_EXTRAS := dev,oracles,render,study,bag,bench,heic,export,torch,vlm,world,viser,video,finetune,llamacpp
ifeq ($(EXTRAS),all)
TEST_EXTRAS := $(ALL_EXTRAS)
# after a crashed worker the rest would wait for ever: stop there, and say so
PYTEST_ARGS ?= -n auto --dist loadgroup --max-worker-restart=0
else
TEST_EXTRAS := dev,vlm,world$(if $(EXTRAS),$(comma)$(EXTRAS))
PYTEST_ARGS ?= -n auto -m "not slow"
endif

.PHONY: demo test lint bench study world clean

demo: .make/core
	$(VENV)/bin/sagehand demo

test: .make/test-$(if $(EXTRAS),$(EXTRAS),light)
	MUJOCO_GL=$${MUJOCO_GL:-egl} $(PY) -m pytest $(PYTEST_ARGS)

lint: .make/test-$(if $(EXTRAS),$(EXTRAS),light)
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy

bench: .make/bench
	$(PY) bench/run_all.py

study: .make/study
	MUJOCO_GL=$${MUJOCO_GL:-egl} $(VENV)/bin/sagehand study render --out out/ewaste
	$(VENV)/bin/sagehand study run examples/study-offline.yaml --data out/ewaste --out out/run --jobs 2
	$(VENV)/bin/sagehand study report out/run --out out/run/report.html

world: .make/world
	MUJOCO_GL=$${MUJOCO_GL:-egl} $(VENV)/bin/sagehand world try cup --grasp rim --executor physics --animate out/mug.gif

clean:
	rm -rf $(VENV) .make out build

$(PY):
	$(PYTHON) -m venv $(VENV)

.make/core: $(PY) pyproject.toml constraints.txt
	$(PIP) -e .
	@mkdir -p .make && touch $@

.make/bench: $(PY) pyproject.toml constraints.txt
	$(PIP) -e '.[bench,vlm,world]'
	$(PIP) --no-deps dm-robotics-panda
	@mkdir -p .make && touch $@

.make/world: $(PY) pyproject.toml constraints.txt
	$(PIP) -e '.[world]'
	$(PIP) --no-deps dm-robotics-panda
	@mkdir -p .make && touch $@

.make/study: $(PY) pyproject.toml constraints.txt
	$(PIP) -e '.[render,study,torch]'
	@mkdir -p .make && touch $@

# without their dependencies: xgrammar's triton is a gigabyte that a CPU has no use for; of the Panda only its files are used
.make/test-%: $(PY) pyproject.toml constraints.txt
	$(PIP) -e '.[$(TEST_EXTRAS)]'
	$(PIP) --no-deps dm-robotics-panda
	$(if $(filter all,$(EXTRAS)),$(PIP) --no-deps xgrammar apache-tvm-ffi)
	@mkdir -p .make && touch $@
