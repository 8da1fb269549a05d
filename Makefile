# Every target does its own set-up; second runs reuse what is there. `make` alone shows the list.
.PHONY: help set-up server demo test test-long soak check bench docs

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' Makefile

set-up:
	@scripts/setup

# Tests that need a server each say so themselves when there is none; the rest still runs.
server: set-up
	-@.venv/bin/python scripts/find_mysql.py

demo: set-up ## stream a real MySQL into SQLite, kill the pipeline on the way, compare
	.venv/bin/capstan demo

test: server ## the suite, under ten minutes
	.venv/bin/pytest -m "not long" --numprocesses 4 --dist worksteal

test-long: server ## what takes minutes or gigabytes
	.venv/bin/pytest -m long --timeout 3600

SECONDS ?= 600
SEED ?=
NOTE ?=
soak: server ## faults of every kind for SECONDS=600; SEED=… begins as that one did
	PYTHONPATH=tests .venv/bin/python -m soak --seconds $(SECONDS) \
		$(if $(SEED),--seed $(SEED)) $(if $(NOTE),--note $(NOTE))

check: set-up ## format, lint, types, architecture
	.venv/bin/ruff format --check
	.venv/bin/ruff check
	.venv/bin/mypy
	.venv/bin/pytest -q tests/test_architecture.py

bench: server ## capstan beside mysql-replication on one server, in one run
	.venv/bin/python bench

docs: set-up ## the pages that are made from code
	.venv/bin/python scripts/generate_docs.py
