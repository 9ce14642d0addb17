# `make run` and `make test` need nothing prepared: scripts/setup installs what is missing and says so.
# Everything else here is a shortcut; `make help` lists them.

SHELL := bash
.DEFAULT_GOAL := help
.PHONY: help run test bench faults drill lint style deny doc schema web services clean-services doctor

help: ## List the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 24

run: ## Build and run the server with everything it needs inside
	@scripts/setup run
	@cargo build --bin lifemate
	@exec ./target/debug/lifemate serve

test: ## Run every test, with the stores that they need
	@scripts/test

faults: ## Run only the tests that kill processes and stores
	@scripts/test faults

drill: ## A whole sale: embedded, then two servers and a worker on MariaDB, Redis and Kafka
	@scripts/drill

bench: ## Measure the sale against redis-benchmark, and cached reads (release build)
	@scripts/setup bench
	@node scripts/bench/bench.mjs

lint: style deny doc ## Formatting, clippy, licences, documentation

style: ## Formatting and clippy
	cargo fmt --all -- --check
	cargo lint

deny: ## Licences and banned crates, where cargo-deny is installed
	@if cargo deny --version > /dev/null 2>&1; then cargo deny check bans licenses sources; \
	else echo "cargo-deny is not installed (cargo install cargo-deny --locked): skipped"; fi

doc: ## Build the documentation; a broken link is an error
	RUSTDOCFLAGS='-D warnings' cargo doc --workspace --no-deps --document-private-items

schema: ## Rewrite schema/schema.graphql
	@cargo build --bin lifemate
	@./target/debug/lifemate schema > schema/schema.graphql.part && mv schema/schema.graphql.part schema/schema.graphql

web: ## Fetch GraphiQL from its lock file
	cd web && npm ci --no-audit --no-fund

services: ## Start the stores that tests run on, and print their variables
	@scripts/services start

clean-services: ## Stop the tests' stores and remove their data
	@scripts/services stop

doctor: ## Say what this machine has and lacks
	@scripts/doctor
