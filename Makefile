# make demo and make test are the two commands of the README: each does all its own set-up.

.PHONY: demo test bench

demo:
	@scripts/setup demo
	@echo 'demo: building the program, without the optimizations that make a release build long' >&2
	cargo build --profile demo --locked --package sawmill-cli
	@scripts/demo

test:
	@scripts/setup test
	scripts/test

bench:
	@scripts/setup bench
	cargo build --release --locked --package sawmill-cli
	scripts/bench
