# `make demo` and `make test` do all set-up on a fresh machine; see setup.sh.
PYTEST = .venv/bin/python -m pytest -p no:cacheprovider

.PHONY: demo test test-full power seeds setup lint lock docs clean

setup:
	./setup.sh

demo: setup
	./demo.sh

lint: setup
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/mypy

# Three processes on two cores: many tests wait for nodes, containers and hosts.
test: lint
	$(PYTEST) -n 3 --dist worksteal -m "not full"

test-full: lint
	$(PYTEST) -n 3 --dist worksteal

# The site, in .cache/docs/site. It has an environment of its own, and a broken link fails it.
docs: .cache/docs-env/ready
	.cache/docs-env/bin/python docs/site.py

.cache/docs-env/ready: docs/requirements.lock
	$(or $(PYTHON),python3) -m venv --clear .cache/docs-env
	.cache/docs-env/bin/python -m pip install -q --disable-pip-version-check --require-hashes -r docs/requirements.lock
	touch $@

# Hours; Ctrl-C stops each, and the same command goes on where it was, as long as the code is the same.
power: setup
	.venv/bin/python -m benchmarks.mutation --write

seeds: setup
	.venv/bin/python -m benchmarks.seeds

# Needs uv (pip install uv); the result needs only pip.
lock:
	uv pip compile --quiet --generate-hashes --no-emit-find-links --no-header --universal --python-version 3.11 \
		--extra dev --output-file requirements.lock pyproject.toml
	uv pip compile --quiet --generate-hashes --no-emit-find-links --no-header --universal --python-version 3.11 \
		--group docs --output-file docs/requirements.lock

clean:
	rm -rf .venv .cache build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache
