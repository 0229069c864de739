# farebox: `make run` starts it, `make test` proves it.
SHELL := /bin/bash
export CGO_ENABLED ?= 0
# Tests, vet and lint share with the binary what is compiled: with other flags they would compile all of it again.
# The compiler takes 40 % less time without tables for debuggers, which the binary drops, and without collections.
export GOFLAGS += -trimpath -gcflags=all=-dwarf=false '-toolexec=env GOGC=off GOMEMLIMIT=1GiB'
BUILD := go build -buildvcs=auto -tags nodynamic -ldflags "-s -w"
FUZZTIME ?= 60s
CLIENTS := bench/clients
# A package more than there are cores runs at a time where tests do the same once more: some wait for leases,
# deadlines and disks most of their time.
CORES := $(shell getconf _NPROCESSORS_ONLN)
AT_ONCE := $(shell echo $$(($(CORES) + 1)))
MOST_AT_ONCE := $(shell echo $$(($(CORES) + 3)))
# They begin first, so that none of them is left over at the end.
LONGEST_BINARY := farebox/tests/billing farebox/tests/clients farebox/tests/wallet farebox/tests/cluster
LONGEST := farebox/billing $(LONGEST_BINARY)
# tests/ is a module of its own, so that the product does not list what only tests need. Go commands in that folder
# know the packages of both modules.
ALL := farebox/...
LINTER := go run github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0

.PHONY: run build test test-long long race race-rooms race-binary rest fuzz bench bench-quick lint cover clean setup setup-long setup-agents test-agents nginx

run: build            ## build and start on 127.0.0.1:8080 with a simulated upstream
	./farebox serve

build:                ## the one static binary
	$(BUILD) -o farebox .

setup:                ## what `make test` needs beside Go: servers, programs, Node's and Python's packages of two vendors
	./.ci/setup

setup-long:           ## what the long tests need, too: public clients, wallets, chains, libraries that make documents
	./.ci/setup long

setup-agents:         ## what `make test-agents` needs: agents of npm and PyPI, 2 GB
	./.ci/setup agents

test: setup build     ## in minutes: vet, unit, property, fuzz seeds, allocation gates, the real binary on real servers
	go vet -C tests -tags nodynamic $(ALL)
	FAREBOX_BIN=$(CURDIR)/farebox ./.ci/gotest "make test" -p $(AT_ONCE) -parallel 4 -vet=off -skip '^TestLong' $(LONGEST) $(ALL)

test-long: setup-long build ## the rest: every TestLong…, then those of `make test` under the race detector, in part on another day
	@failed=; for part in long race; do $(MAKE) $$part || failed+=" $$part"; done; \
	  [ -z "$$failed" ] || { echo "make test-long: failed:$$failed"; exit 1; }

test-agents: setup-agents build ## agents beside Codex and Claude Code, with the settings of routes/clients.md
	go vet -C tests -tags "nodynamic agents" ./clients
	FAREBOX_BIN=$(CURDIR)/farebox go test -C tests -tags "nodynamic agents" -count=1 -vet=off -timeout 40m -v -run '^TestOtherAgents' ./clients

# Many wait for leases, deadlines and chains, so that more packages run at a time. Tests of attacks measure what
# others notice: nothing runs beside them.
long: build           ## kills, millions, clusters, large counts, the public clients of other languages
	@failed=; long='-vet=off -parallel 2 -timeout 25m -run ^TestLong'; export FAREBOX_BIN=$(CURDIR)/farebox; \
	  ./.ci/gotest "the long tests" -p $(MOST_AT_ONCE) $$long $(LONGEST) $$(./.ci/packages long | grep -v farebox/tests/security) || failed=1; \
	  ./.ci/gotest "the long attacks" $$long farebox/tests/security || failed=1; \
	  [ -z "$$failed" ]

# Most of tests/ is the work of the binary: that has the race detector, the tests of it have not. Packages that are
# not here take the same ways through the binary, or measure it.
RACED := $(addprefix farebox/tests/,billing cluster account audio chat ledger media operator rpc spec video wallet)
# SQLite and its C library take ten times as long with the detector. They compile no generic functions that synchronize
# (sync.Map), which the linker would share with others.
# The overlay lets a test shift the clock of package time; without FAREBOX_CLOCK_OFFSET the clock is right.
RACE = -race -gcflags=modernc.org/sqlite/lib=-race=false -gcflags=modernc.org/libc=-race=false -gcflags=modernc.org/memory=-race=false \
  -overlay $(shell ./.ci/clocks overlay)
# Random checks of the ledger were made by `make test`; these runs ask another question.
race race-rooms race-binary: export FAREBOX_RAPID_CHECKS = 10
race:                 ## the tests of `make test` under the race detector
	@failed=; for part in race-rooms race-binary; do $(MAKE) $$part || failed=1; done; [ -z "$$failed" ]

# Packages that reckon in dates run on another day; those of them that start servers, whose clocks are right, also today.
# Children of the jail, one goroutine each, are the binary without the detector, under which they begin in half a minute.
race-rooms: build
	@failed=; export CGO_ENABLED=1 FAREBOX_JAIL=$(CURDIR)/farebox; detector='$(RACE) -p $(AT_ONCE) -vet=off -timeout 20m -skip ^TestLong'; \
	  ./.ci/gotest "the race detector" $$detector farebox/billing $$(./.ci/packages today) || failed=1; \
	  ./.ci/clocks test "the race detector on another day" $$detector farebox/billing $$(./.ci/packages clocked) || failed=1; \
	  [ -z "$$failed" ]

race-binary: build
	CGO_ENABLED=1 go build -buildvcs=auto $(RACE) -tags nodynamic -o farebox-race .
	FAREBOX_BIN=$(CURDIR)/farebox-race FAREBOX_SHIFTED=$(CURDIR)/farebox-race FAREBOX_CLI=$(CURDIR)/farebox \
	  ./.ci/gotest "the race detector in the binary" -p $(AT_ONCE) -vet=off -timeout 20m -skip '^TestLong' $(RACED)

# Here each package keeps the processors busy: some measure what customers notice of others.
rest: build           ## the tests of `make test` that `make race` does not run, or runs with other limits
	@failed=; export FAREBOX_BIN=$(CURDIR)/farebox; \
	  ./.ci/gotest "the tests without the race detector" -p $(CORES) -parallel 3 -vet=off -skip '^TestLong' \
	    $$(./.ci/packages but farebox/billing $(RACED) $$(./.ci/packages today) $$(./.ci/packages clocked)) || failed=1; \
	  weaker=$$(./.ci/packages weaker); \
	  ./.ci/gotest "the tests that the race detector leaves out" -p $(CORES) -parallel 4 -vet=off \
	    -run "^($$(cut -d' ' -f2 <<<"$$weaker" | sort -u | paste -sd'|'))\$$" $$(cut -d' ' -f1 <<<"$$weaker" | sort -u) || failed=1; \
	  [ -z "$$failed" ]

fuzz:                 ## every fuzz target for FUZZTIME
	@set -e; for module in . tests; do for pkg in $$(go list -C $$module ./...); do \
	  for f in $$(go test -C $$module -tags nodynamic -list '^Fuzz' $$pkg | grep '^Fuzz' || true); do \
	    echo "== $$pkg $$f"; go test -C $$module -tags nodynamic -run '^$$' -fuzz "^$$f\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 10x $$pkg; \
	  done; done; done

nginx:
	@command -v nginx >/dev/null || [ -x /usr/sbin/nginx ] || { echo "installing nginx for the comparison"; apt-get update -qq && apt-get install -y -qq nginx-light >/dev/null; }

bench: build nginx    ## direct, bare fasthttp relay, nginx and farebox side by side (about 13 minutes)
	./farebox bench compare

bench-quick: build nginx
	./farebox bench compare --quick

# A larger heap halves the processor time of the linter.
lint: export GOGC = 400
lint:                 ## golangci-lint, words and govulncheck; three minutes, and as much again the first time
	$(LINTER) run ./...
	cd tests && $(LINTER) run -c ../.golangci.yml ./...
	./.ci/words
	./.ci/vulnerabilities

cover:
	cd tests && go test -tags nodynamic -skip '^TestLong' -coverprofile=/tmp/farebox.cover $(ALL) && go tool cover -func=/tmp/farebox.cover | tail -1

clean:
	rm -rf farebox farebox-race bench/out $(CLIENTS)/node/node_modules $(CLIENTS)/wallets/node_modules $(CLIENTS)/sealed/node_modules $(CLIENTS)/agents/node_modules $(CLIENTS)/openapi/node_modules $(CLIENTS)/openapi/.venv \
	  $(CLIENTS)/agents/others/node_modules $(CLIENTS)/agents/others/.venv $(CLIENTS)/python/.venv providers/parse/testdata/python/.venv \
	  $(CLIENTS)/public/node/node_modules $(CLIENTS)/public/python/.venv $(CLIENTS)/public/python/.venv-openai2 tests/deploy/.venv
