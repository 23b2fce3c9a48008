# make env | demo | tools | quick | test | lowest | fuzz | mutants | lint | audit | dist | bench | gpu | wheels | clean
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.ONESHELL:
.DEFAULT_GOAL := help

PYTHON ?= python3
EXTRAS ?= slurm
VENV := .venv
BIN := $(CURDIR)/$(VENV)/bin
CORES ?= $(shell n=$$(getconf _NPROCESSORS_ONLN); echo $$(( n > 2 ? n : 2 )))
STAMP := $(VENV)/.installed
TOOLS := $(VENV)/.tools
# What looks at the environment or at the tests is no part of it.
AUDIT := $(VENV)/audit
MUTANTS := $(VENV)/mutants
LOWEST := .lowest
INSTALL = $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e

.PHONY: help env demo tools quick test lowest fuzz mutants lint audit dist bench gpu wheels clean

help: ## show this list
	@sed -n 's/^\([a-z]*\):.*## /\1\t/p' Makefile | expand -t 8

env: $(STAMP) ## create the environment in .venv to run AAM, system programs included where possible

$(STAMP): pyproject.toml constraints.txt workflow/install_system.sh workflow/apt_install.sh
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed: make PYTHON=python3.12 ...")'
	bash workflow/install_system.sh $(PYTHON)
	$(PYTHON) -m venv $(VENV)
	$(INSTALL) '.[$(EXTRAS)]'
	touch $@
	@echo 'The environment is in $(VENV). Now: source $(VENV)/bin/activate'

demo: env ## run the whole workflow on a simulated study and print a summary
	$(BIN)/python -m aam run config/config.yaml --cores $(CORES) -- all bench
	cat results/demo/summary.md

tools: $(TOOLS) ## add the tools of developers to the environment: tests, linters, documents

$(TOOLS): $(STAMP)
	$(INSTALL) '.[$(EXTRAS),dev]'
	touch $@

lint: tools ## check style, types, imports, the workflow and the documents
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/snakefmt --check Snakefile workflow
	$(BIN)/snakemake --lint
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

# A file of tests stays in one process, which makes its data once; one more than cores, as SLURM waits.
PYTEST := OMP_NUM_THREADS=1 $(BIN)/pytest --numprocesses $$(( $(CORES) + 1 )) --dist loadfile --no-loadscope-reorder
QUICK := $(addprefix tests/unit/,config data distances evaluate learners model report util)

quick: tools ## check style, and run the contracts and the fast tests
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(PYTEST) tests/contract $(QUICK)

# The longest files come first: SLURM's, which mostly wait, then whole studies. Linters take what
# tests leave of the cores.
test: tools ## run the linters and all tests
	nice -n 19 $(MAKE) --no-print-directory lint &
	$(PYTEST) tests/slurm tests/gallery tests/real/test_tutorial.py tests/plugin tests/workflow tests/real tests/unit tests/contract tests/fuzz tests/gpu
	wait $$!

fuzz: tools ## try 100,000 damaged files of each kind, or go on with it, and 2,000 studies with odd names
	$(BIN)/python -m benchmarks.fuzz --of-each 100000 --processes $(CORES)
	$(BIN)/python -m benchmarks.fuzz --labels 2000

$(MUTANTS): $(STAMP)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --target $@ 'cosmic-ray>=8.7' 'coverage>=7.17'
	touch $@

PACKAGES ?= data evaluate learners distances
mutants: tools $(MUTANTS) ## change the code in small ways, and count how many changes the unit tests notice
	$(BIN)/python -m benchmarks.mutants $(PACKAGES)

lowest: ## run the fast tests with the lowest versions that pyproject.toml allows
	$(PYTHON) -m venv $(LOWEST)
	$(LOWEST)/bin/python -m pip install --quiet uv
	$(LOWEST)/bin/uv pip compile --quiet --resolution lowest-direct pyproject.toml --all-extras --output-file $(LOWEST)/lowest.txt
	$(LOWEST)/bin/uv pip install --quiet --python $(LOWEST)/bin/python -r $(LOWEST)/lowest.txt
	PYTHONPATH=. OMP_NUM_THREADS=1 $(LOWEST)/bin/python -m pytest --numprocesses $(CORES) --dist loadfile $(QUICK)

$(AUDIT): $(STAMP)
	$(PYTHON) -m venv $(AUDIT)
	$(AUDIT)/bin/python -m pip install --quiet --disable-pip-version-check 'setuptools>=77' pip-audit cyclonedx-bom
	touch $@

audit: $(AUDIT) ## look up known weaknesses of all dependencies, which needs a network
	$(AUDIT)/bin/pip-audit --requirement constraints.txt --no-deps --disable-pip --strict

dist: $(AUDIT) ## build wheel and source distribution, the same bytes each time, and list what they need (SBOM)
	$(AUDIT)/bin/python .ci/dist.py dist
	$(AUDIT)/bin/cyclonedx-py environment --pyproject pyproject.toml --output-reproducible --of JSON --output-file dist/sbom.cdx.json $(BIN)/python

bench: env ## time the modes of training, and how they grow, on the simulated study of the demo
	$(BIN)/snakemake --cores $(CORES) --configfile config/config.yaml --forcerun benchmark_speed -- bench
	cat results/demo/benchmark/speed.md
	$(BIN)/python -m benchmarks.scaling config/config.yaml --batch-sizes 8 16 32 --layers 1 2 4 --asvs 64 128 256 512

# For a machine without a network that has what docs/how-to/gpu.md lists. `make gpu DRY=--dry` needs
# no GPU.
GPU_PYTHON ?= $(if $(wildcard $(BIN)/python),$(BIN)/python,$(PYTHON))
LACKING := annotated-types array-api-compat biom-format decorator edlib h5py lightning-fabric \
	lightning-utilities natsort pydantic pydantic-core scikit-bio typing-inspection

# An environment gets pytest for `tests/gpu`; without one the machine's own Python is used.
gpu: $(if $(wildcard $(BIN)/python),tools) ## measure all that a GPU has to show, in ten minutes, and write docs/gpu.md
	if [ -d wheels ] && ! [ -d wheels/site ]; then
	  $(GPU_PYTHON) -m pip --quiet install --no-index --no-deps --find-links wheels --target wheels/site $(LACKING)
	fi
	PYTHONPATH=wheels/site $(GPU_PYTHON) -m benchmarks.gpu results/gpu $(DRY)

wheels: env ## collect what `make gpu` needs in addition to PyTorch, for Python 3.12 on Linux
	$(BIN)/pip download --quiet --no-deps --only-binary=:all: --dest wheels -c constraints.txt \
	  --python-version 312 --platform manylinux_2_28_x86_64 --platform manylinux2014_x86_64 $(LACKING)

# Not .snakemake: it remembers what the results of other datasets were made with.
clean: ## remove the environment and the results of the demo
	rm -rf $(VENV) $(LOWEST) dist results/demo .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache .site
