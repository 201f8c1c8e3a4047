# A fresh machine needs Python 3.11 or newer and make; everything else is set up here, once.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN := .venv/bin
DATA ?= ../shared/data/locomo
RTT_MS ?= 40
SCHEDULES ?= 1000

.DEFAULT_GOAL := help
.PHONY: help setup demo test simulate test-vllm check proto bench env-report clean

help: ## This list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1|/' | awk -F'|' '{printf "make %-12s %s\n", $$1, $$2}'

# One pip command: torch has to be resolved together with everything that depends on it.
.venv/.installed: pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "precall needs Python 3.11 or newer; set PYTHON=")'
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -P -m pip install -q --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $@

.venv-proto/.installed: tools/proto-requirements.txt
	test -x .venv-proto/bin/python || $(PYTHON) -m venv .venv-proto
	.venv-proto/bin/python -P -m pip install -q --disable-pip-version-check -r tools/proto-requirements.txt
	touch $@

.venv-vllm/.installed: tools/vllm-requirements.txt pyproject.toml
	test -x .venv-vllm/bin/python || $(PYTHON) -m venv .venv-vllm
	.venv-vllm/bin/python -P -m pip install -q --disable-pip-version-check -r tools/vllm-requirements.txt
	.venv-vllm/bin/python -P -m pip uninstall -q -y torchvision torchaudio torchcodec
	.venv-vllm/bin/python -P -m pip install -q --disable-pip-version-check --no-deps --no-build-isolation -e .
	touch $@

.venv-peers/.installed: tools/peers-requirements.txt
	test -x .venv-peers/bin/python || $(PYTHON) -m venv .venv-peers
	.venv-peers/bin/python -P -m pip install -q --disable-pip-version-check -r tools/peers-requirements.txt
	touch $@

.venv-index-peers/.installed: tools/index-peers-requirements.txt
	test -x .venv-index-peers/bin/python || $(PYTHON) -m venv .venv-index-peers
	.venv-index-peers/bin/python -P -m pip install -q --disable-pip-version-check -r tools/index-peers-requirements.txt
	touch $@

.venv-peer-cache/.installed: tools/peer-cache-requirements.txt
	test -x .venv-peer-cache/bin/python || $(PYTHON) -m venv .venv-peer-cache
	.venv-peer-cache/bin/python -P -m pip install -q --disable-pip-version-check -r tools/peer-cache-requirements.txt
	touch $@

setup: .venv/.installed ## Create .venv with everything

demo: .venv/.installed ## The main job on a short conversation; fails if a read at P75 takes 15 ms or more
	$(BIN)/precall demo

test: .venv/.installed .venv-proto/.installed ## Every test
	$(BIN)/pytest

test-vllm: .venv-vllm/.installed ## The tests that need vLLM, on its build for processors; minutes
	.venv-vllm/bin/pytest tests/vllm

simulate: .venv/.installed ## Clients, server and network by chance, on a virtual clock (SCHEDULES=1000)
	PYTHONPATH=. $(BIN)/python -P -m tests.simulation --schedules $(SCHEDULES)

check: .venv/.installed .venv-proto/.installed ## Lint, format, types, stubs
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	rm -rf build
	$(BIN)/python -P -m pip install -q --disable-pip-version-check --no-deps --no-build-isolation \
	    --target build/typecheck .
	MYPYPATH=build/typecheck $(BIN)/mypy -p precall
	.venv-proto/bin/python -P tools/generate_stubs.py --check

proto: .venv-proto/.installed ## Generate the stubs from proto/*.proto
	.venv-proto/bin/python -P tools/generate_stubs.py

bench: .venv/.installed ## Replay LoCoMo (DATA=folder, RTT_MS=40); writes out/reads.json and a plot
	mkdir -p out
	$(BIN)/precall bench reads --data $(DATA) --rtt-ms $(RTT_MS) --json out/reads.json

env-report: .venv/.installed ## The machine and the versions that a measurement depends on
	$(BIN)/python -P -m precall.bench.machine

clean: ## Remove what was built; keeps nothing but the sources
	rm -rf .venv .venv-proto .venv-vllm .venv-peers .venv-index-peers .venv-peer-cache build dist out *.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis
