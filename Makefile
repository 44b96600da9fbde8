# What a person types. Everything is installed into .venv, and the rest of the machine is left alone
# but for the browser that the tests need: see `browser`.

VENV := .venv
RUN := $(VENV)/bin/python -m
PIP := $(RUN) pip --disable-pip-version-check
LAB := $(VENV)/.installed-lab
TEST := $(VENV)/.installed-test
SLOW := $(VENV)/.installed-slow
CLUSTERS := .venv-cluster
JOBS = auto
ENGINES := tests/contract/engine tests/unit/engines
NOTEBOOKS = $(wildcard notebooks/*.ipynb)
PYTHONS = python3 python python3.14 python3.13 python3.12 python3.11

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help install demo lab check test test-all quick faults guard browser pictures stills docs slow clusters \
	twins cached agents kept bench scale translations pins clean distclean

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
	@echo 'PYTHON=... says which Python to use (3.11 or newer), ARGS=... is passed on,'
	@echo 'JOBS=... how many tests run at once, PATIENCE=3 makes them wait three times as long.'

install: $(LAB) ## Install Workbench and JupyterLab into .venv

demo: $(LAB) ## Run the first notebook, and leave the page it makes in build/demo
	@$(VENV)/bin/python notebooks/demo.py $(ARGS)

lab: $(LAB) ## Open JupyterLab on the first notebook
	@$(RUN) jupyterlab $(if $(filter 0,$(shell id -u)),--allow-root) \
	    --LabApp.default_url=/lab/tree/notebooks/01-first-steps.ipynb $(ARGS)

check: $(TEST) ## Check types and style: mypy, ruff
	@$(RUN) mypy && $(RUN) ruff check && $(RUN) ruff format --check

test: $(TEST) browser ## Run the tests, those apart that take long and seldom find something
	@$(RUN) pytest -n $(JOBS) $(ARGS)

test-all: $(TEST) browser ## Run all tests but those of `make slow`
	@$(RUN) pytest -n $(JOBS) -m 'not slow' $(ARGS)

quick: check ## Check, and run the tests that the difference from main touches; what failed last comes first
	@$(RUN) pytest -n $(JOBS) --failed-first $$($(VENV)/bin/python tests/touched.py) $(ARGS)

faults: $(TEST) ## Make a hundred faults in the code, one at a time, and count those that tests find
	@$(RUN) tests.faults $(ARGS)

guard: $(TEST) ## Run cells that ask for too much memory, in small containers, and say which ended well
	@$(RUN) tests.guard $(ARGS)

pictures: $(TEST) browser ## Take the pictures in notebooks/images anew
	@PICTURES=notebooks/images $(RUN) pytest tests/browser -m 'not slow' $(ARGS)

stills: $(LAB) ## Renew the output with which the notebooks are kept; NOTEBOOKS=... says which
	@for notebook in $(NOTEBOOKS); do \
	    case $$notebook in *03-*) memory=256MB;; *) memory=;; esac; \
	    WORKBENCH_MEMORY=$$memory $(VENV)/bin/python notebooks/demo.py $$notebook || exit; \
	    cp build/demo/$$(basename $$notebook) notebooks/; \
	done

docs: $(TEST) ## Build the documentation; leaves it in build/docs. What is wrong in it is an error
	@$(RUN) sphinx --quiet --fail-on-warning --keep-going -b html $(ARGS) docs build/docs
	@echo 'Open build/docs/index.html.'

slow: $(SLOW) ## Run the slow tests, and those at random at length; installs torch (5 GB) and Ray for them
	@THOROUGH=1 $(RUN) pytest -m 'slow or thorough or hypothesis' --timeout 0 $(ARGS)

clusters: $(CLUSTERS)/.installed ## Run the engines' tests over Ray and Dask, in .venv-cluster; ARGS=tests/... says which
	@$(CLUSTERS)/bin/python -m pytest $(if $(filter tests/%,$(ARGS)),,$(ENGINES)) \
	    --engine ray --engine dask $(ARGS)

twins: $(TEST) ## Run 10 000 random programs of cells here and with cells on a worker, and compare
	@$(RUN) tests.twins.run --count 10000 $(ARGS)

cached: $(TEST) ## Change what cells depend on, 10 000 times: with --cache each must give what a run gives
	@$(RUN) tests.twins.cached --count 10000 $(ARGS)

agents: $(TEST) ## Kill the client, the server, the kernel of `workbench mcp`; what ran must be found, stopped
	@$(RUN) tests.twins.agent_kills --count 1000 $(ARGS)

kept: $(TEST) ## Run random programs in a kernel that keeps its variables, go back, kill it, and compare
	@$(RUN) tests.twins.kept --count 1000 $(ARGS)

bench: $(TEST) ## Measure Workbench beside its peers and the machine's limits
	@$(VENV)/bin/python tests/benchmarks $(ARGS)

scale: $(TEST) ## Measure the server's decisions with 1000 workers and a million tasks
	@$(VENV)/bin/python tests/benchmarks/scale.py $(ARGS)

translations: $(TEST) ## Compile the course's translations, workbench/course/*.po
	@for catalog in workbench/course/*.po; do \
	    $(RUN) babel.messages.frontend compile -i $$catalog -o $${catalog%.po}.mo; \
	done

pins: ## Renew the pins in binder/requirements.txt, with the Python of binder/runtime.txt
	@rm -rf build/pins && mkdir -p build
	@$(or $(PYTHON),$(shell tr -d - < binder/runtime.txt)) -m venv build/pins
	@build/pins/bin/python -m pip install --quiet '.[lab]' notebook hatchling
	@{ sed -n '/^#/p' binder/requirements.txt; \
	   build/pins/bin/python -m pip freeze --exclude ipyworkbench; } > build/pins/requirements.txt
	@mv build/pins/requirements.txt binder/requirements.txt && rm -r build/pins
	@git --no-pager diff --stat binder/requirements.txt

clean: ## Remove what was built and cached
	@rm -rf build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	@find workbench tests notebooks -name __pycache__ -prune -exec rm -rf {} +

distclean: clean ## Remove the environments too: .venv, .venv-cluster and .bench
	@rm -rf $(VENV) $(CLUSTERS) .bench

# Debian's Chromium, where we may install it. (Ubuntu's package only fetches a snap, which needs more
# than a container has.) Where there is none, the tests that need it say so: skipped, or, in CI, failed.
browser: ## Install Chromium for the tests in a browser, where Debian's can be had
	@for name in chromium chromium-browser google-chrome; do \
	    command -v $$name > /dev/null && exit; \
	done; \
	if [ "$$(id -u)" = 0 ] && grep -qsx 'ID=debian' /etc/os-release; then \
	    echo 'Installing Chromium for the tests in a browser.'; \
	    export DEBIAN_FRONTEND=noninteractive; \
	    apt-get update -qq && apt-get install -qq --yes --no-install-recommends chromium; \
	fi || true

$(LAB): pyproject.toml $(VENV)/pyvenv.cfg
	@echo 'Installing Workbench and JupyterLab into $(VENV); the first time it takes a minute or two.'
	@$(PIP) install --quiet --editable '.[lab]'
	@touch $@

$(TEST): pyproject.toml $(VENV)/pyvenv.cfg
	@echo 'Installing Workbench and what its tests need into $(VENV).'
	@$(PIP) install --quiet --editable '.[test]'
	@touch $(LAB) $@

$(SLOW): $(TEST)
	@echo 'Installing torch and Ray into $(VENV), which are large.'
	@$(PIP) install --quiet --editable '.[test,torch,exchange,peers]'
	@touch $@

# Apart from the other, because what comes with distributed changes how exceptions are pickled.
$(CLUSTERS)/.installed: pyproject.toml $(CLUSTERS)/pyvenv.cfg
	@echo 'Installing Workbench, Ray and Dask into $(CLUSTERS).'
	@$(CLUSTERS)/bin/python -m pip --disable-pip-version-check install --quiet --editable '.[test,peers]'
	@touch $@

$(CLUSTERS)/pyvenv.cfg: $(VENV)/pyvenv.cfg
	@$(VENV)/bin/python -m venv $(CLUSTERS)

# The first Python that is new enough and can make environments: some distributions ship one that
# can't. Asking it is the only way to know; pyenv, for one, has commands that only say no.
$(VENV)/pyvenv.cfg:
	@found=; for python in $(or $(PYTHON),$(PYTHONS)); do \
	    $$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2> /dev/null || continue; \
	    found=$$python; \
	    $$python -c 'import ensurepip, venv' 2> /dev/null || continue; \
	    exec $$python -m venv $(VENV); \
	done; \
	if [ "$$found" ]; then \
	    echo "$$found can't make virtual environments. On Debian and Ubuntu 'apt install" \
	         "python3-venv' gives it that; or name another: make PYTHON=/path/to/python3"; \
	else \
	    echo "Workbench needs Python 3.11 or newer; none of these is: $(or $(PYTHON),$(PYTHONS))." \
	         "Install one, or say where it is: make PYTHON=/path/to/python3"; \
	fi >&2; exit 1
