# `make` lists what there is to do. The commands for a machine without make are in README.md.
#
#   PYTHON=python3.12     which Python to build on (3.11 or newer; the first one found by default)
#   TORCH_BACKEND=cpu     PyTorch's CPU build, 0.2 GB where the usual Linux build with CUDA is 3 GB
#   CONSTRAINTS=          nothing after the = installs the newest versions inside pyproject.toml's ranges
#   NB=02                 one chapter instead of all
#   PYTEST_ARGS="-n 2"    handed to pytest by `make browser`, `make browser-quick` and `make soak`
#   LAB_ARGS=--no-browser handed to JupyterLab; how else it starts is in .jupyter/
#   MACHINES=sse,avx2     make machines plays these alone
#   SOAK_MINUTES=60       make soak starts nothing after so many minutes
#   RECORD=l4             make gpu names its record so
#   PACKAGES=/tmp/packages  make packages installs other people's packages there
#   QUICK=1               make gpu measures one shape, in two minutes

PYTHON ?=
TORCH_BACKEND ?=
CONSTRAINTS ?= constraints.txt
LAB_ARGS ?=
PYTEST_ARGS ?=
NB ?=
MACHINES ?=
SOAK_MINUTES ?= 240
RECORD ?= cuda
QUICK ?=
PACKAGES ?= /tmp/packages

VENV := .venv
BIN := $(VENV)/bin
SETUP := PYTHON="$(PYTHON)" TORCH_BACKEND="$(TORCH_BACKEND)" CONSTRAINTS="$(CONSTRAINTS)" sh .ci/set_up $(VENV)
TOOLS := $(BIN)/python -m tools
# Jupyter writes into the home directory; where that is read-only, one in its place serves until the machine restarts.
WRITABLE_HOME := [ -w "$$HOME" ] || { HOME=$$(mktemp -d); export HOME; \
	echo "Your home directory is read-only: settings and progress go to $$HOME, which does not last."; }
INPUTS := pyproject.toml .ci/set_up $(CONSTRAINTS)

.DEFAULT_GOAL := help
.PHONY: help lab learn fresh test check unit lint notebooks machines browser browser-quick soak gpu run edit update links student class handbook html format ledger packages freeze clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-13s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

# One stamp a set-up: the file is there when everything in it is installed, and older than what it was made from when not.
$(VENV)/.lab: $(INPUTS)
	@$(SETUP) ".[course]"
	@touch $@

$(VENV)/.test: $(INPUTS)
	@$(SETUP) ".[test]"
	@touch $(VENV)/.lab $@

lab: learn ## learn: open JupyterLab on your own copy of chapter 00 (installs everything the first time)
	@echo "JupyterLab opens in your browser; Ctrl-C twice here stops it."
	@$(WRITABLE_HOME); JUPYTER_CONFIG_PATH="$(CURDIR)/.jupyter$${JUPYTER_CONFIG_PATH:+:$$JUPYTER_CONFIG_PATH}" $(BIN)/jupyter lab --log-level=WARN $(LAB_ARGS)

learn: $(VENV)/.lab ## learn: your own copies of the chapters, in learn/; a newer version writes over nothing of yours
	@$(TOOLS) learn

fresh: $(VENV)/.lab ## learn: begin a chapter anew (NB=02); what you had is kept beside it
	@$(TOOLS) fresh $(NB)

test: check unit lint notebooks ## prove: formatting, types, unit tests, notebook lint, every notebook run anew

check: $(VENV)/.test ## ruff and mypy, notebooks included
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

unit: $(VENV)/.test ## the unit tests and the doctests
	$(BIN)/pytest -q -rs -n 3 --dist worksteal --durations 25

lint: $(VENV)/.test ## what a reader of the notebooks would trip over (NB=02 for one)
	$(TOOLS) lint $(NB)

notebooks: $(VENV)/.test ## run every notebook anew and compare its outputs (nbval, strict)
	$(BIN)/pytest -q --nbval notebooks -n 2 --dist loadfile

machines: $(VENV)/.test ## every notebook as other machines compute: SSE, AVX2, other sums, threads (NB=02, MACHINES=sse,avx2)
	MACHINES="$(MACHINES)" sh .ci/machines $(BIN)/python notebooks/$(NB)*.ipynb

packages: $(VENV)/.test ## diagnose the published layers of chapter 19 in their newest versions; says what changed
	$(BIN)/python -m pip install -q --upgrade --no-deps --target $(PACKAGES) -r chapters/c19_other_peoples_code/packages.txt
	$(BIN)/python -m chapters.c19_other_peoples_code.packages $(PACKAGES)

browser: $(VENV)/.test ## run every notebook in JupyterLab and move its widgets, in Chromium (NB=02 for one)
	$(BIN)/pytest -v -rs -s --browser tests/browser $(if $(NB),--chapter $(NB)) $(PYTEST_ARGS)

browser-quick: $(VENV)/.test ## the site and three notebooks in Chromium
	$(BIN)/pytest -q -rs --browser --quick tests/browser $(PYTEST_ARGS)

soak: $(VENV)/.test ## every notebook in every condition, claims disturbed, small models trained again; hours (NB=02 for one)
	$(BIN)/pytest -v -rs --tb=short --soak --soak-minutes $(SOAK_MINUTES) tests/soak $(if $(NB),--chapter $(NB)) $(PYTEST_ARGS)

gpu: $(VENV)/.test ## measure: the tests that need an NVIDIA GPU, then the ladder into chapters/c10_where_the_time_goes/recorded/, then what chapters record
	@$(BIN)/python -c "import torch; torch.cuda.init()" || { $(BIN)/course doctor; exit 2; }
	-$(BIN)/pytest -q -rs -m gpu
	$(BIN)/course bench --device cuda $(if $(QUICK),--quick) --out chapters/c10_where_the_time_goes/recorded/$(RECORD).jsonl
	COURSE_RECORD=1 $(BIN)/pytest -q --nbval notebooks/05* notebooks/10* notebooks/11* notebooks/12*

run: $(VENV)/.test ## author: execute notebooks and store their outputs (NB=02 for one)
	$(TOOLS) run $(NB)

edit: $(VENV)/.test ## author: NB=02 as a Python file in edit/
	$(TOOLS) edit $(NB)

update: $(VENV)/.test ## author: bring edit/ back into the notebook (NB=02), keeping outputs
	$(TOOLS) update $(NB)

links: $(VENV)/.test ## author: write the lines that link chapters back and on, and their times (NB=02 for one)
	$(TOOLS) links $(NB)

student: $(VENV)/.test ## teach: copies without solutions, in student/
	$(TOOLS) student $(NB)

class: $(VENV)/.test ## teach: the course with those copies for its notebooks, as class.zip
	$(TOOLS) class_archive

handbook: $(VENV)/.test ## teach: weeks, a lesson, questions with answers in handbook.md; every known mistake in mistakes.md
	$(TOOLS) handbook

html: $(VENV)/.test ## teach: the notebooks as a site to read without a kernel or a network, in site/
	$(TOOLS) html

format: $(VENV)/.test ## author: format code and notebooks
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

ledger: $(VENV)/.test ## author: write the ledger of claims from the assertions that ran
	$(TOOLS) ledger

freeze: $(VENV)/.test ## author: write constraints.txt from what is installed
	@sed -n '/^#/p' constraints.txt > .constraints
	@$(BIN)/python -m pip freeze --exclude-editable | sed -E 's/\+[a-z0-9.]+$$//' \
		| grep -viE '^(course-utils|pip|uv|nvidia-.*|cuda-.*)(=| @)' >> .constraints
	@mv .constraints constraints.txt

clean: ## remove what was made here, the environment included; your copies in learn/ stay
	rm -rf $(VENV) build dist edit student class.zip handbook.md mistakes.md site screenshots *.egg-info .pytest_cache .ruff_cache .mypy_cache .hypothesis
	find chapters course_utils tests notebooks -name __pycache__ -prune -exec rm -rf {} + -o -name .ipynb_checkpoints -prune -exec rm -rf {} +
