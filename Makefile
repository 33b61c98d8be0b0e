# `make demo` and `make test` do all set-up on a fresh machine; see setup.sh.
PYTEST = .venv/bin/python -m pytest -p no:cacheprovider

# Images often switch bytecode off. The tests start thousands of Python programs, and each would compile all that it imports.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo check test test-full power seeds shrink soak bench-controller rocketmq systems setup format lint lock pages docs dist clean

setup:
	./setup.sh

demo: setup
	./demo.sh

format: setup
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .

lint: format
	.venv/bin/mypy

# Unit tests that start nothing, neither nodes nor containers nor a JVM, with few examples of each property; without
# those that take seconds each, for clusters in storms and long histories.
UNITS = tests/chaos/effects tests/chaos/experiment tests/chaos/history tests/nemesis tests/reference tests/workloads \
	$(wildcard tests/chaos/test_*.py) tests/stormproof/test_list.py tests/stormproof/test_made_pages.py \
	tests/test_structure.py tests/test_docs.py
LONG = tests/chaos/history/test_blocks.py tests/chaos/history/test_traces.py tests/workloads/test_idle.py \
	$(patsubst %,tests/reference/test_%.py,controller_modes embedded raft raft_trouble replication tier)
STARTS = full or process or docker or netns or ssh or spark
check: format
	@nice .venv/bin/mypy >.cache/mypy.log 2>&1 & types=$$!; \
	$(PYTEST) -q -n 2 --hypothesis-profile=quick -m "not ($(STARTS))" $(UNITS) $(LONG:%=--ignore=%); tests=$$?; \
	wait $$types; types=$$?; cat .cache/mypy.log; \
	[ $$((tests | types)) = 0 ] || { echo "check: failed"; exit 1; }; echo "check: passed; next, make test"

test: WHICH = -m "not full"
test-full: WHICH = --durations=80
test-full: .cache/moto-env/ready

# Three processes on two cores: many tests wait for nodes, containers and hosts. Types are checked beside them, and
# reported last. All tests are collected once before, which leaves them compiled: else each process would compile them
# for itself.
test test-full: format
	@nice .venv/bin/mypy >.cache/mypy.log 2>&1 & types=$$!; \
	$(PYTEST) -q --collect-only $(WHICH) >/dev/null 2>&1; \
	echo '$(PYTEST) -n 3 --dist worksteal $(WHICH)'; \
	$(PYTEST) -n 3 --dist worksteal $(WHICH); tests=$$?; \
	wait $$types; types=$$?; echo .venv/bin/mypy; cat .cache/mypy.log; exit $$((tests | types))

# Tables of docs that are made from the code. Tests refuse what is wrong in them; what is new comes in here.
pages: setup
	.venv/bin/python -m stormproof.catalogue docs/faults.md
	.venv/bin/python -m stormproof.commands_page docs/commands.md
	.venv/bin/python -m stormproof.events_page docs/history.md
	.venv/bin/python -m stormproof.laws_page docs/laws.md
	.venv/bin/python -m stormproof.options_page docs/options.md

# The site, in .cache/docs/site. It has an environment of its own, and a broken link fails it.
docs: pages .cache/docs-env/ready
	.cache/docs-env/bin/python docs/site.py

.cache/docs-env/ready: docs/requirements.lock
.cache/release-env/ready: stormproof/release/requirements.lock
.cache/moto-env/ready: tests/reference/moto.lock
.cache/%-env/ready:
	$(or $(PYTHON),python3) -m venv --clear $(@D)
	$(@D)/bin/python -m pip install -q --disable-pip-version-check --require-hashes -r $< || \
		{ echo "make: pip could not install what $< names; this needs a network, once" >&2; exit 3; }
	touch $@

# What a release is made of, in dist (docs/releasing.md). A commit with a tag has the version that the tag says. All but
# the image is the same again, byte for byte, for the same commit and the same tools.
dist: export SOURCE_DATE_EPOCH ?= $(shell git log -1 --format=%ct)
dist: PACK = tar --format=posix --pax-option=delete=atime,delete=ctime --sort=name --mtime=@$$SOURCE_DATE_EPOCH \
	--owner=0 --group=0 --numeric-owner --mode=u=rwX,go=rX -c
dist: pages .cache/release-env/ready
	git diff --exit-code --stat -- docs || { echo "dist: these pages were not what the code says; commit them" >&2; exit 3; }
	@version=$$(.venv/bin/stormproof --version | cut -d ' ' -f 2); for tag in $$(git tag --points-at HEAD 'v*'); do \
		[ "$$tag" = "v$$version" ] || { echo "dist: the tag $$tag is not the version $$version" >&2; exit 3; }; done
	rm -rf build dist *.egg-info
	mkdir dist
	.venv/bin/python -c "from setuptools import build_meta; build_meta.build_sdist('dist')" >.cache/dist.log
	.venv/bin/python -m pip wheel -q --no-deps --no-build-isolation -w dist .
	rm -rf build *.egg-info
	.cache/release-env/bin/python -m stormproof.release.sbom requirements.lock pyproject.toml .venv/bin/python \
		>dist/stormproof.cdx.json
	.venv/bin/python -m stormproof.release.licences dist/stormproof.cdx.json | diff docs/licences.md -
	.venv/bin/python -m stormproof.release.manual dist/man
	cd dist && sdist=$$(ls *.tar.gz) && tar -xf "$$sdist" && $(PACK) "$${sdist%.tar.gz}" | gzip -9n >"$$sdist" && \
		rm -r "$${sdist%.tar.gz}" && $(PACK) man | gzip -9n >"$${sdist%.tar.gz}-man.tar.gz" && rm -r man
	.venv/bin/python -m stormproof.release.harness_image dist
	cp CHANGELOG.md dist/
	cd dist && sha256sum * >../.cache/SHA256SUMS && mv ../.cache/SHA256SUMS .

# Hours; Ctrl-C stops each, and the same command goes on where it was, as long as the code is the same.
power: setup
	.venv/bin/python -m benchmarks.mutation --write
	.venv/bin/python -m benchmarks.mutation --system split --write

seeds: setup
	.venv/bin/python -m benchmarks.seeds
	.venv/bin/python -m benchmarks.seeds --system split

shrink: setup
	.venv/bin/python -m benchmarks.shrinking

# Half an hour, with nothing else on the machine.
soak: setup
	.venv/bin/python -m benchmarks.soak

bench-controller: setup
	.venv/bin/python -m benchmarks.controllers

# Apache RocketMQ itself, some minutes a run; needs stormproof install rocketmq@5.5.0 and the other versions. That
# promises are broken (1, 4), or that some run decided nothing (2), is what came out and no failure.
rocketmq: setup
	.venv/bin/stormproof matrix benchmarks/rocketmq_matrix.yaml --notes benchmarks/rocketmq_runs.jsonl --out .cache \
		--page benchmarks/results/rocketmq.md || [ $$? -ne 3 ]

# Every experiment for a system that others wrote, some minutes a run, and the page of what came out. `TIMES=10` runs each
# ten times; `INVENTORY=FILE` lists the hosts of --on ssh; `ROW='kafka/*'` runs a part.
systems: setup
	.venv/bin/stormproof matrix benchmarks/systems_matrix.yaml --runs $(or $(TIMES),1) $(ROW:%=--row '%') \
		$(INVENTORY:%=--inventory %) --notes benchmarks/systems_runs.jsonl --out .cache \
		--page benchmarks/results/systems.md

# Needs uv (pip install uv); the result needs only pip.
lock:
	uv pip compile --quiet --generate-hashes --no-emit-find-links --no-header --universal --python-version 3.11 \
		--all-extras --output-file requirements.lock pyproject.toml
	uv pip compile --quiet --generate-hashes --no-emit-find-links --no-header --universal --python-version 3.11 \
		--group docs --output-file docs/requirements.lock
	uv pip compile --quiet --generate-hashes --no-emit-find-links --no-header --universal --python-version 3.11 \
		--group release --output-file stormproof/release/requirements.lock
	uv pip compile --quiet --generate-hashes --no-emit-find-links --no-header --universal --python-version 3.11 \
		--group moto --output-file tests/reference/moto.lock

clean:
	rm -rf .venv .cache build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache
