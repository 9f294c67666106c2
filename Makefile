# Everything a newcomer needs: `make demo` and `make test` do all the set-up on a machine with Python >= 3.11, pip and make.
# Knobs: PYTHON=/path/to/python3 picks the interpreter of .venv; DEMO='bench …' what the demo runs; PYTEST='-k …' adds arguments.

BIN := .venv/bin
PYTHON ?=
# 3.11 first: the versions in constraints.txt are tested with it.
PYTHONS := $(or $(PYTHON),python3.11 python3.12 python3.13 python3.14 python3)
DEMO ?= bench grpo passk-training --seeds 1 --tokens 900000 --points 1
PYTEST ?=
BENCHMARKS ?= $(addprefix benchmarks/,sampler.py learner.py step.py trl_step.py vocabulary.py waves.py lag.py start.py)

.PHONY: help demo test test-all check engines environments versions docs bench format
.DEFAULT_GOAL := help

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## /  make \1\t/p' Makefile

demo: .venv/installed ## train a shipped model with GRPO and with a recipe for pass@k, and compare them (a new folder runs/demo-N)
	@n=1; while [ -e "runs/demo-$$n" ]; do n=$$((n + 1)); done; \
	echo "== demo: outrider $(DEMO) --out runs/demo-$$n"; \
	$(BIN)/outrider $(DEMO) --out "runs/demo-$$n"

# Dozens of the tests' processes import the package: what the first has compiled is kept for the others.
test: .venv/installed ## the whole test suite, doctests included
	@echo "== test: pytest, processes of one thread, one more than cores, at most 4"
	@OMP_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest -n auto --dist loadfile $(PYTEST)

test-all: .venv/installed ## the same with the slow cases: every moment of a kill or a signal
	@$(MAKE) --no-print-directory test PYTEST="-m '' $(PYTEST)"

check: .venv/installed ## linter, formatter, type checker, file budgets, import rules, words
	@echo "== ruff" && $(BIN)/ruff check . && $(BIN)/ruff format --check .
	@echo "== mypy" && $(BIN)/mypy
	@echo "== budgets of files and functions" && $(BIN)/python tools/check_budgets.py
	@echo "== layers" && $(BIN)/python tools/check_layers.py
	@echo "== language" && $(BIN)/python tools/check_language.py

engines: .venv/installed .engines/vllm/installed .engines/skyrl/installed ## the contract suites of the optional engines, in environments of their own
	@$(BIN)/python benchmarks/engines.py .engines/vllm/bin/python .engines/skyrl/bin/python

environments: .venv/installed .engines/verifiers/installed .engines/trl/installed ## the tests with the packages verifiers and trl, each in an environment of its own
	@OMP_NUM_THREADS=1 OUTRIDER_VERIFIERS_PYTHON=$(CURDIR)/.engines/verifiers/bin/python $(BIN)/python -m pytest tests/tasks/test_verifiers_task.py $(PYTEST)
	@OMP_NUM_THREADS=1 .engines/trl/bin/python -m pytest tests/integrations/test_integrations_trl.py tests/docs/test_use_outside.py $(PYTEST)

versions: .venv/installed ## the test suite with the lowest and with the newest versions that pyproject.toml admits
	@for which in lowest newest; do \
	  echo "== .engines/$$which: $$which versions, 6 GB with a CUDA build of PyTorch; some minutes"; \
	  rm -rf ".engines/$$which" && tools/install_versions.sh "$$which" ".engines/$$which" $(BIN)/python && \
	  OMP_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE= ".engines/$$which/bin/python" -m pytest -n auto --dist loadfile $(PYTEST) || exit; \
	done

docs: .venv/docs ## build the documentation into site/; broken links are errors
	@NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet && echo "== docs: site/index.html"

bench: .venv/installed .engines/trl/installed ## speed of sampler, learner, steps beside TRL, waves, lag, and the start of a run, on this machine (BENCHMARKS='…' picks others)
	@for file in $(BENCHMARKS); do echo "== $$file" && $(BIN)/python "$$file" || exit; done

format: .venv/installed ## let ruff sort imports, fix what it can, and format
	@$(BIN)/ruff check --fix --quiet . ; $(BIN)/ruff format .

# The stamp is written last, so an interrupted installation is taken up again. -qq: errors, but no notes about indexes.
.venv/installed: pyproject.toml constraints.txt
	@for p in $(PYTHONS); do \
	  if $$p -c 'import sys, ensurepip, venv; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then found=$$p; break; fi; \
	done; \
	if [ -z "$$found" ]; then \
	  echo "Outrider needs Python 3.11 or newer with its venv module; none of these is: $(PYTHONS)." \
	       "Name one with: make PYTHON=/path/to/python3" >&2; exit 1; \
	fi; \
	echo "== .venv: $$($$found --version)" && $$found -m venv .venv
	@echo "== install: about 75 packages, 1.6 GB on disk with a CPU build of PyTorch; a few minutes"
	@$(BIN)/python -m pip install -qq -c constraints.txt -e '.[dev]'
	@touch $@

.engines/vllm/installed: tools/install_vllm.sh | .venv/installed
	@echo "== .engines/vllm: vLLM with its own PyTorch, 3 GB or more; some minutes"
	@rm -rf .engines/vllm && tools/install_vllm.sh .engines/vllm $(BIN)/python
	@touch $@

.engines/skyrl/installed: tools/install_skyrl.sh | .venv/installed
	@echo "== .engines/skyrl: SkyRL's server with JAX, 2 GB; some minutes"
	@rm -rf .engines/skyrl && tools/install_skyrl.sh .engines/skyrl $(BIN)/python
	@touch $@

.engines/verifiers/installed: tools/install_verifiers.sh | .venv/installed
	@echo "== .engines/verifiers: the package verifiers, 1 GB; a minute"
	@rm -rf .engines/verifiers && tools/install_verifiers.sh .engines/verifiers $(BIN)/python
	@touch $@

.engines/trl/installed: tools/install_trl.sh | .venv/installed
	@echo "== .engines/trl: Outrider with TRL, 2 GB; some minutes"
	@rm -rf .engines/trl && tools/install_trl.sh .engines/trl $(BIN)/python
	@touch $@

.venv/docs: .venv/installed
	@$(BIN)/python -m pip install -qq -c constraints.txt -e '.[docs]'
	@touch $@
