# A short front for people; the build itself is CMake (see CMakePresets.json).
PRESET ?= default
PREFIX ?= /usr/local
JOBS ?= $(shell nproc)
BUILD = build/$(PRESET)

.PHONY: all configure demo test check-long install lint format man bench bench-shapes clean

all: configure
	cmake --build $(BUILD) -j $(JOBS)

configure:
	@test -f $(BUILD)/CMakeCache.txt || cmake --preset $(PRESET)

demo:
	./scripts/demo

test:
	./scripts/test

check-long: all
	ctest --preset long

install: all
	cmake --install $(BUILD) --prefix $(PREFIX)

lint:
	./scripts/lint

format:
	git ls-files '*.c' '*.h' | xargs clang-format -i

man: all
	cmake --build $(BUILD) --target man

bench: all
	cmake --build $(BUILD) --target bench

bench-shapes: all
	cmake --build $(BUILD) --target bench-shapes

clean:
	rm -rf build
