# Targets for people who work on manifold; "make help" lists them.
# Everything is built from the modules that go.mod requires.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := build

VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
LDFLAGS := -s -w -X main.version=$(VERSION)
PREFIX ?= /usr/local
# Docker's CLI looks here below /usr/local and /usr, and in ~/.docker/cli-plugins.
PLUGINS ?= $(PREFIX)/lib/docker/cli-plugins

STATICCHECK := go run honnef.co/go/tools/cmd/staticcheck@v0.8.2
ACTIONLINT := go run github.com/rhysd/actionlint/cmd/actionlint@v1.7.12
GOLANGCI := go run github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0

# Packages that link a build engine. They take minutes to compile a second time
# for the race detector, so "make test" runs them without it; "make race" runs
# them with it.
HEAVY := ./internal/buildkit/... ./internal/cli/... ./cmd/...
LIGHT = $$(go list ./... | grep -v -e /internal/buildkit -e /internal/cli -e /cmd/ -e /examples/)

# Tests find the programs they need here before anywhere else.
export PATH := $(CURDIR)/bin:$(PATH)

FUZZTIME ?= 10s

# Two hosts with sshd and a Docker Engine each, in namespaces; as root. Part of
# "make test", too.
report-a: build buildkitd tools ## two hosts over ssh: buildx leaves a list per node, manifold none
	scripts/report-a.sh

.PHONY: report-a engines help build buildkitd tools deps demo test race lint fuzz bench faults install clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' | expand -t 12

build: ## bin/manifold, a static binary
	CGO_ENABLED=0 go build -trimpath -ldflags '$(LDFLAGS)' -o bin/manifold ./cmd/manifold

buildkitd: ## bin/buildkitd, the build daemon for local nodes
	CGO_ENABLED=0 go build -trimpath -o bin/buildkitd github.com/moby/buildkit/cmd/buildkitd

tools: ## bin/crane, bin/buildx and bin/buildctl, which tests read and compare with
	CGO_ENABLED=0 go build -trimpath -ldflags '-s -w' -o bin/buildctl github.com/moby/buildkit/cmd/buildctl
	CGO_ENABLED=0 go build -trimpath -o bin/crane github.com/google/go-containerregistry/cmd/crane
	CGO_ENABLED=0 go build -trimpath -o bin/buildx github.com/docker/buildx/cmd/buildx

engines: ## bin/engines, today's Docker Engine, which stories build and push with
	scripts/engines.sh

demo: build buildkitd ## build and publish examples/hello on two local nodes
	scripts/demo.sh

deps: ## the Debian packages that tests need, if any is missing
	scripts/deps.sh

test: deps build buildkitd tools engines ## vet, staticcheck, actionlint and every test, as CI does
	go vet ./...
	$(STATICCHECK) ./...
	$(ACTIONLINT) examples/ci/github.yml
	go test -race $(LIGHT)
	go test -timeout 30m $(HEAVY)

race: buildkitd tools ## every test with the race detector (slow)
	go test -race ./...

lint: ## golangci-lint with .golangci.yml, actionlint over the example workflow
	$(GOLANGCI) run ./...
	$(ACTIONLINT) examples/ci/github.yml

fuzz: ## every fuzz target for FUZZTIME each (10s)
	scripts/fuzz.sh $(FUZZTIME)

bench: build buildkitd tools ## compare with buildx and others: build, relay, copy, requests, start-up
	scripts/bench.sh
	scripts/bench_relay.sh
	scripts/bench_copy.sh

faults: buildkitd tools ## docs/faults.md: what each verb, and each peer, makes of each fault
	mkdir -p bin/peers
	@# their own modules: what they require is not what this one does
	GOBIN=$(CURDIR)/bin/peers go install github.com/regclient/regclient/cmd/regctl@v0.11.7
	GOBIN=$(CURDIR)/bin/peers go install oras.land/oras/cmd/oras@v1.3.6
	PATH=$(CURDIR)/bin/peers:$(PATH) go test ./internal/cli -run 'TestFaults$$' -count=1 -timeout 60m -args -faults $(CURDIR)/docs/faults.md

install: build ## install in PREFIX/bin (/usr/local), and as Docker CLI plugin in PLUGINS
	install -D -m 755 bin/manifold '$(DESTDIR)$(PREFIX)/bin/manifold'
	install -d '$(DESTDIR)$(PLUGINS)'
	ln -sf '$(PREFIX)/bin/manifold' '$(DESTDIR)$(PLUGINS)/docker-manifold'

clean: ## remove what was built, and the state of the demo
	rm -rf bin .demo
