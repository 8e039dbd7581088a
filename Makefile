# Every target sets itself up on a fresh clone; scripts/ does the work, here and in CI.
.PHONY: demo test check bench docs clean
.DELETE_ON_ERROR:

demo: .venv/.done-run
	.venv/bin/ksame demo -o demo

test: .venv/.done-test
	scripts/test

check: .venv/.done-check
	scripts/check

docs: .venv/.done-check
	scripts/docs

bench: .venv/.done-bench
	scripts/bench

clean:
	rm -rf .venv demo build dist docs/_build .coverage .*_cache

# installed once, and again when pyproject.toml changes
.venv/.done-%: pyproject.toml scripts/setup
	scripts/setup $*
