# make demo   installs Contrapose into .venv and runs its main job
# make test   installs the tools too and runs all checks and tests, in less than six minutes on two cores
# make wheel  tries the wheel in a bare environment; CI runs it after the tests
# make docs   builds the documentation site into site/, strictly; CI runs it after the tests
# make quick  runs the checks that need no model, in about a minute
# make torture  tries damaged files, kills, full disks and hostile servers for half an hour or so
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

# Tests start many processes, each of which would compile the whole package anew without its bytecode.
unexport PYTHONDONTWRITEBYTECODE

# Packages whose tests load no model and no real annotations.
QUICK  := $(addprefix tests/,test_arrays.py data files metrics report results scores)

.PHONY: demo test quick lint types imports tree unit docs wheel format clean

demo: $(VENV)/.demo
	$(BIN)/contrapose demo

# mypy runs on one core: two at once, so that the tests need not wait for it.
test: $(VENV)/.dev
	$(MAKE) --no-print-directory --jobs=2 lint imports tree types unit

quick: lint tree
	$(BIN)/pytest -q -n 2 --dist worksteal -m 'not real_data' $(QUICK)

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.dev
	$(BIN)/mypy

imports: $(VENV)/.dev
	$(BIN)/lint-imports

tree: $(VENV)/.dev
	$(BIN)/python tools/check_tree.py

unit: $(VENV)/.dev
	$(BIN)/pytest -q -n 2 --dist worksteal

.PHONY: torture
# The seed is the date, so that each night tries other cases; it is printed with the counts, which TORTURE_DOCS=1 writes
# into docs/reliability.md if both runs pass. tests/torture is named in the first one so that its summary is loaded.
torture: export TORTURE_SEED := $(or $(TORTURE_SEED),$(shell date +%Y%m%d))
torture: $(VENV)/.dev
	PROPERTY_EXAMPLES=$${PROPERTY_EXAMPLES:-1000} $(BIN)/pytest -q -n 2 --dist worksteal -m hypothesis \
	tests tests/torture --hypothesis-seed=$$(printf %s "$$TORTURE_SEED" | cksum | cut -d ' ' -f 1)
	PROPERTY_EXAMPLES=0 FUZZ_ROUNDS=$${FUZZ_ROUNDS:-200} KILL_ROUNDS=$${KILL_ROUNDS:-40} \
	$(BIN)/pytest -q -n 2 --dist worksteal tests/torture

# The site's own notice on a later version is no concern of a build.
docs: $(VENV)/.dev
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

# Builds the wheel, installs it into a bare environment, and runs the demo and the tutorial from it.
wheel: $(VENV)/.dev
	$(BIN)/python -m tools.wheel

format: $(VENV)/.dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

$(VENV)/.created:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Contrapose needs Python 3.11 or newer; try make PYTHON=python3.11")'
	$(PYTHON) -m venv $(VENV)
	touch $@

$(VENV)/.demo: $(VENV)/.created pyproject.toml constraints.txt
	$(PIP) --editable '.[torch]'
	touch $@

# open_clip and timm want torchvision, and one that does not fit the pinned torch breaks transformers;
# the tests bring the few parts of it that are needed. Their other needs are in the extra `dev`.
$(VENV)/.dev: $(VENV)/.created pyproject.toml constraints.txt
	$(PIP) --editable '.[dev]'
	$(PIP) --no-deps open_clip_torch timm
	touch $@

clean:
	rm -rf $(VENV) site .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
