# SPDX-License-Identifier: MIT
# The front door. `make train` and `make test` do everything on a fresh Debian or Ubuntu machine.
.PHONY: all deps build train test asan tsan check install clean

all: build

deps:
	@tools/install-deps

build: deps
	@cmake --preset release -DWEFT_TESTS=OFF >/dev/null
	@cmake --build --preset release

train: build
	@tools/quickstart

test: deps
	@cmake --preset dev >/dev/null
	@cmake --build --preset dev
	@cd build/dev && ctest --output-on-failure

asan tsan: deps
	@cmake --preset $@ >/dev/null
	@cmake --build --preset $@
	@cd build/$@ && ctest --output-on-failure

check:
	@tools/check_layers
	@tools/check_house

install: build
	@cmake --install build/release

clean:
	@rm -rf build
