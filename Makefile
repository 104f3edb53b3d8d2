# axle: `make run` starts the server with a model that ships inside, `make test` runs the tests. `make help` lists the rest.
GO      ?= go
VERSION ?= 0.1.0
TAGS    := nomsgpack
LDFLAGS := -s -w -X main.version=$(VERSION)
BUILD   := build
export CGO_ENABLED ?= 1
SHELL   := /bin/bash

.PHONY: help build run test ci race nocgo asan sweep mutants fuzz sim arm64 bench lint
help: ## list the targets
	@awk -F':.*## ' '/^[a-z0-9-]+:.*## /{printf "  %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

build: ## bin/axle: needs Go and gcc, no SDK and no card
	$(GO) build -trimpath -tags '$(TAGS)' -ldflags '$(LDFLAGS)' -o bin/axle ./cmd/axle

run: build ## start the server on the best device, with the model that ships inside
	bin/axle serve --hello

test: ## all tests that a fresh machine can run
	$(GO) test -tags '$(TAGS)' ./...

sim: ## build/sim: the simulated card behind the vendor's ABI
	$(GO) run ./axcl/simcard/mksim -o $(BUILD)/sim
