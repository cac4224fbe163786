# make demo and make test are the two commands of the README: each does all its own set-up.
# make install puts the program below PREFIX (and that below DESTDIR), make uninstall takes it away again.
PREFIX ?= /usr/local
DESTDIR ?=
release := $(or $(CARGO_TARGET_DIR),target)/release/sawmill

.PHONY: demo test bench build install uninstall deb

demo:
	@scripts/setup demo
	@echo 'demo: building the program, without the optimizations that make a release build long' >&2
	cargo build --profile demo --locked --package sawmill-cli
	@scripts/demo

test:
	@scripts/setup test
	scripts/test

bench: build
	@scripts/setup bench
	scripts/bench

build:
	cargo build --release --locked --package sawmill-cli

# Builds only where nothing was built: root often has no cargo.
$(release):
	$(MAKE) build

install: $(release)
	scripts/install $(release) $(PREFIX) $(DESTDIR)

uninstall: $(release)
	scripts/install --uninstall $(release) $(PREFIX) $(DESTDIR)

deb: $(release)
	scripts/package $(release)
