# The two commands of the README: each does all its own set-up.
.PHONY: demo test bench setup

demo: setup
	cargo build --release --locked --package sawmill-cli
	scripts/demo

test: setup
	scripts/test

bench: setup
	cargo build --release --locked --package sawmill-cli
	scripts/bench

setup:
	@scripts/setup
