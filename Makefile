# SPDX-License-Identifier: Apache-2.0
# The front door. Meson and Ninja do the work; scripts/ has one short script per target.

all: setup
	@ninja -C build/release
	@echo 'built: build/release/tools/{tally,tallyd}, build/release/src/libtally.so'

setup:
	@scripts/setup.sh release

help:
	@echo 'make            build everything into build/release'
	@echo 'make demo       install what is missing (Debian, root or sudo), then train on 4 ranks of this machine'
	@echo 'make check      in a minute: the checks of the tree, and the short tests of what you changed  REVISION=HEAD'
	@echo 'make test       install what is missing (Debian, root or sudo), then all tests; about 20 minutes on two cores'
	@echo 'make search     visit every reachable state of the shipped protocol code'
	@echo 'make search-long  the same with all its long rows, a process per core, and a table  MARKDOWN=1 ROW= JOBS='
	@echo 'make sim        simulate 2,000 seeds of bad networks, each mode SEEDS=1..2000'
	@echo 'make sim-long   100,000 seeds of every kind of scenario, a process per core; 10 minutes on two  SEEDS=1..100000'
	@echo 'make kill       kill -9 at random moments, workers and tallyd  ROUNDS=300 SEED='
	@echo 'make soak       jobs come and go on a lossy link, root  MINUTES=30 SEED='
	@echo 'make differential  gcc, clang and the kernel do the same with random packets  PACKETS=1000000 SEED='
	@echo 'make ablate     take each check out in turn: a test must turn red   ONLY=NAME JOBS='
	@echo 'make mutants    change the code in 260 ways, and the rooms in 630: a test must notice  ROOMS= COUNT= SEED= ONLY=FILE JOBS= PROOF=1 NUMBERS='
	@echo 'make hostile    strangers send 10 million packets of each kind at running jobs, members lie'
	@echo 'make fuzz       fuzz what takes bytes from outside           FUZZ_RUNS=1000000 FUZZ_TARGETS="switch codec"'
	@echo 'make format     lay out all C with .clang-format'
	@echo 'make install    build what is installed and put it into PREFIX=/usr/local, libraries into LIBDIR=lib; DESTDIR'
	@echo 'make uninstall  remove that again, with the same PREFIX, LIBDIR and DESTDIR'
	@echo 'make clean      remove build/'
	@echo
	@echo 'One test:       meson test -C build/release core-wire'
	@echo 'Under asan:     scripts/setup.sh asan && meson test -C build/asan --suite unit'
	@echo 'How a change gets in: CONTRIBUTING.md. How C is written here: STYLE.md.'

check:
	@scripts/check.sh $(REVISION)

test:
	@scripts/test.sh

demo:
	@scripts/demo.sh

search: all
	@scripts/search.sh

search-long: all
	@scripts/search-long.sh $(if $(MARKDOWN),--markdown) $(if $(ROW),--row '$(ROW)')

SEEDS ?= 1..2000
sim: all
	@build/release/tools/tally sim --seeds $(SEEDS)
	@build/release/tools/tally sim --scenario latency --seeds $(SEEDS)
	@build/release/tools/tally sim --sparse --seeds $(SEEDS)

sim-long: SEEDS = 1..100000
sim-long: all
	@build/release/tools/tally sim --scenario every --packets 2500 --jobs $$(nproc) --seeds $(SEEDS)

ROUNDS ?= 300
kill: all
	@build/release/tests/e2e/kill_test build/release/tools/tallyd $(ROUNDS) $(SEED)

MINUTES ?= 30
soak: all
	@tests/e2e/soak.sh $(MINUTES) $(SEED)

PACKETS ?= 1000000
differential: all
	@meson test -C build/release --no-rebuild -v -t 20 --num-processes 1 --test-args '$(PACKETS) $(SEED)' \
		differential differential-bpf bpf bpf_latency

ablate ablations:
	@scripts/ablations.sh $(ONLY)

mutants:
	@scripts/mutants.py $(if $(ROOMS),--rooms '$(ROOMS)') $(COUNT:%=--count %) $(SEED:%=--seed %) $(ONLY:%=--only %) $(JOBS:%=--jobs %) \
		$(PROOF:%=--proof) $(NUMBERS:%=--numbers %)

hostile: all
	@build/release/tests/hostile/hostile_member build/release/tools/tallyd
	@build/release/tests/hostile/hostile_sender build/release/tools/tallyd 10000000 100
	@build/release/tests/hostile/hostile_blind build/release/tools/tallyd dense 10000000 200
	@build/release/tests/hostile/hostile_blind build/release/tools/tallyd latency 10000000 200
	@build/release/tests/hostile/hostile_blind build/release/tools/tallyd kernel 10000000 200 || [ $$? = 77 ]
	@build/release/tests/hostile/hostile_sparse build/release/tools/tallyd 10000000
	@build/release/tests/e2e/e2e_signals_test build/release/tools/tallyd 1000

fuzz:
	@scripts/fuzz.sh $(FUZZ_TARGETS)

format:
	@scripts/check-style.sh --fix

export PREFIX LIBDIR DESTDIR
install:
	@scripts/install.sh

uninstall:
	@scripts/install.sh --remove

clean:
	rm -rf build

.PHONY: all setup help check test demo search search-long sim sim-long kill soak differential ablate ablations mutants format install uninstall clean fuzz hostile
