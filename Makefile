# farebox: `make run` starts it, `make test` proves it.
SHELL := /bin/bash
STAMP := $(shell date -u +%Y%m%d.%H%M%S)
export CGO_ENABLED ?= 0
BUILD := go build -trimpath -tags nodynamic -ldflags "-s -w -X main.version=$(STAMP)"
FUZZTIME ?= 60s
CLIENTS := bench/clients

.PHONY: run build test race fuzz bench bench-quick lint cover clean setup nginx

run: build            ## build and start on 127.0.0.1:8080 with a simulated upstream
	./farebox serve

build:                ## the one static binary
	$(BUILD) -o farebox .

setup:                ## what the tests need beside Go: Node and its packages, Python's openai where Python is at hand
	./.ci/setup

test: setup build     ## everything: vet, unit, property, fuzz seeds, allocation gates, real clients, then the race detector
	go vet -tags nodynamic ./...
	FAREBOX_BIN=$(CURDIR)/farebox go test -tags nodynamic -count=1 -timeout 20m ./...
	$(MAKE) race

race: build           ## the same tests under the race detector, in their short form
	FAREBOX_CLI=$(CURDIR)/farebox CGO_ENABLED=1 go test -tags nodynamic -race -short -count=1 -timeout 20m ./...

fuzz:                 ## every fuzz target for FUZZTIME
	@set -e; for pkg in $$(go list ./...); do \
	  for f in $$(go test -tags nodynamic -list '^Fuzz' $$pkg | grep '^Fuzz' || true); do \
	    echo "== $$pkg $$f"; go test -tags nodynamic -run '^$$' -fuzz "^$$f\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 10x $$pkg; \
	  done; done

nginx:
	@command -v nginx >/dev/null || [ -x /usr/sbin/nginx ] || { echo "installing nginx for the comparison"; apt-get update -qq && apt-get install -y -qq nginx-light >/dev/null; }

bench: build nginx    ## direct, bare fasthttp relay, nginx and farebox side by side (about 9 minutes)
	./farebox bench compare

bench-quick: build nginx
	./farebox bench compare --quick

lint:
	golangci-lint run

cover:
	go test -tags nodynamic -short -coverprofile=/tmp/farebox.cover ./... && go tool cover -func=/tmp/farebox.cover | tail -1

clean:
	rm -rf farebox bench/out $(CLIENTS)/node/node_modules $(CLIENTS)/python/.venv
