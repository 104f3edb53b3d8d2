# axle: `make run` starts the server with a model that ships inside, `make test` runs the tests. `make help` lists the rest.
GO       ?= go
VERSION  ?= 0.1.0
TAGS     := nomsgpack
LDFLAGS  := -s -w -X main.version=$(VERSION)
BUILD    := build
FUZZTIME ?= 30s
SHELL    := /bin/bash
space    := $(subst ,, )
HOSTARCH := $(shell $(GO) env GOARCH)
CROSS    := aarch64-linux-gnu-gcc
.DEFAULT_GOAL := help
GOBUILD   = $(GO) build -trimpath -buildvcs=false -buildmode=pie -tags '$(TAGS)' -ldflags '$(LDFLAGS)'

.PHONY: help build run test quick ci ci-long lint race nocgo asan sweep mutants fuzz rules sim scripted clients-ci clients arm64 avx512 bench bench-check bench-torch bench-llamacpp bench-profile ui ui-quick ui-soak ui-vendor proxies settings template-goldens template-truth flakes soak kill-loops valgrind tokenizer-truth sugarme pocket pocket-goldens build-arm64 deb deb-arm64 deb-test dist
##@ Everyday

build: ## bin/axle: needs Go and gcc, no SDK and no card
	$(GOBUILD) -o bin/axle ./cmd/axle

run: build ## start the server on the best device there is, with the model that ships inside
	bin/axle serve --hello

test: ## all tests that a fresh machine can run
	$(GO) test -tags '$(TAGS)' -timeout 30m $(if $(SWEPT),-skip '^($(SWEPT))$$') ./...

quick: ## nearly everything, in a minute where little was changed: formatting, vet, the laws, what is fast of every package's tests
	@out=$$(gofmt -l $$(git ls-files '*.go')); test -z "$$out" || { echo "not gofmt'ed:"; echo "$$out"; exit 1; }
	$(GO) test -p 4 -parallel 8 -short -vet=off -tags '$(TAGS)' -ldflags='-s -w' ./...
	$(GO) vet -tags '$(TAGS)' ./...
	@bash testdata/short.sh

lint: ## formatting, vet, shell syntax
	@out=$$(gofmt -l $$(git ls-files '*.go')); test -z "$$out" || { echo "not gofmt'ed:"; echo "$$out"; exit 1; }
	$(GO) vet -tags '$(TAGS)' ./...
	$(GO) vet -tags '$(TAGS) scripted' ./cmd/axle ./server/...
	@for arch in arm64 riscv64; do GOARCH=$$arch CGO_ENABLED=0 $(GO) vet -tags '$(TAGS)' ./axcl/soft/... && GOARCH=$$arch CGO_ENABLED=0 $(GO) build ./axcl/soft/kernel || exit 1; done
	@for f in $$(git ls-files '*.sh') .ci/run; do bash -n $$f || exit 1; done
	@if command -v staticcheck >/dev/null; then staticcheck -checks inherit,-SA1019 -tags '$(TAGS)' ./...; else echo "lint: staticcheck SKIPPED, it is not installed"; fi

help: ## list the targets
	@awk -F':.*## ' '/^##@/{printf "%s%s\n", n++ ? "\n" : "", substr($$0, 5)} /^[a-z0-9-]+:.*## /{printf "  %-15s %s\n", $$1, $$2}' Makefile

##@ Lanes of CI

# CI's lanes, the longest first after what fails soonest: three at a time, each of which does one thing at a time (testdata/lanes.sh).
LANES := lint build race test fuzz asan clients-ci ui-quick nocgo sweep
ci: export FUZZTIME := $(if $(filter file,$(origin FUZZTIME)),2s,$(FUZZTIME))
# What the lane sweep runs whole, and asan once more, CI's lane test leaves to them.
ci: export SWEPT := TestSweep|TestSweepTwo|TestSweepStates|TestSweepLent
ci: ## what CI runs: every lane, side by side; each one's output is in build/ci
	@MAKE='$(MAKE)' bash testdata/lanes.sh $(LANES)

#proves:T7 for minutes
#proves:G25 10,000 requests, 25 loads
ci-long: ## what does not fit into ci: a day of requests, the whole matrix of loads beside a fresh card, and 64 clients that attack for minutes
	AXLE_TEST_DAY=10000 AXLE_TEST_FRESH=1 $(GO) test -tags '$(TAGS)' -count=1 -timeout 60m -run 'TestDay$$|TestAsFresh$$' -v ./engine
	AXLE_TEST_MIX=100 $(GO) test -tags '$(TAGS)' -count=1 -timeout 60m -run 'TestMemoryOfMix$$' -v ./cmd/axle

# Packages in which no goroutine is started and nothing is shared, in their tests neither: lanes_test.go holds them to it. What is C
# (simcard's tests have a lane under TSan of their own) or a model's arithmetic (pocket) is none of the detector's business. Single tests
# leave themselves out by internal/lane.
SINGLE := $(subst $(space),|,axcl axcl/soft/kernel axcl/simcard axcl/simcard/profiles axmodel internal/plain internal/regular \
	models/pocket sampler server/anthropic server/ollama server/openai server/vendor tokenizer/gotmpl tokenizer/jinja vision)
#proves:D16 each pass comes from the card's own thread (tag invariants)
race: ## the tests under the race detector, of what goroutines share
	$(GO) test -race -vet=off -tags '$(TAGS) invariants' -timeout 20m $$($(GO) list ./... | grep -vE '/axle(/($(SINGLE)))?$$')

# Where files are chosen by cgo, or by the tag fake, and what has them compiled in.
PURE := ./axcl/... ./engine/... ./cmd/internal/benchmark ./cmd/internal/diagnosis ./cmd/axle ./models/pocket
nocgo: ## the pure-Go build, and the tests of what is built differently without cgo
	CGO_ENABLED=0 $(GOBUILD) -o $(BUILD)/axle-nocgo ./cmd/axle
	CGO_ENABLED=0 $(GO) vet -tags '$(TAGS)' $(PURE)
	CGO_ENABLED=0 $(GO) test -vet=off -tags '$(TAGS)' ./axcl/cards ./axcl/native ./axcl/simcard/simcardtest ./cmd/internal/benchmark
	CGO_ENABLED=0 $(GO) test -vet=off -tags '$(TAGS)' -run 'TestCommands|TestDoctor|TestLookAgain|TestNoCard|TestGoldens$$|TestTerminal|TestSettings' ./cmd/axle
	$(GO) vet -tags '$(TAGS) fake' $(PURE)

#proves:G1
asan: ## native and the simulated card under ASan and UBSan, fault sweep included
	sh axcl/native/testdata/asan.sh

#proves:G3
sweep: ## every call to the card fails once and for good; C coverage of it
	sh axcl/native/testdata/cover.sh

#proves:G5 every parser; two seconds each in CI
fuzz: ## every parser for FUZZTIME (30s)
	bash testdata/fuzz.sh $(FUZZTIME)

clients-ci: scripted ## Go clients and npm ollama and openai against the scripted server
	bash testdata/clients/run.sh ci

ui-quick: scripted ## the main paths of the page in headless Chromium, as CI runs them
	bash testdata/ui/run.sh quick

scripted: ## bin/axle-scripted: the server over a script instead of a model, for clients' tests
	$(GO) build -trimpath -buildvcs=false -buildmode=pie -tags '$(TAGS) scripted' -o bin/axle-scripted ./cmd/axle

sim: ## build/sim: the simulated card behind the vendor's ABI
	$(GO) run ./axcl/simcard/mksim -o $(BUILD)/sim

##@ Longer tests

#proves:G2
mutants: ## plant defects in the C code one by one: each must be caught
	bash axcl/native/testdata/mutants.sh

rules: ## take the rules behind docs/promises.md out one by one: the named test must fail each time (RULES=D7 for one row)
	AXLE_TEST_RULES=$(or $(RULES),all) $(GO) test -count=1 -timeout 2h -run 'TestRules$$' -v .

flakes: ## the suite fifty times, two hours on two cores (PACKAGES=./server/... for a part); build/flakes.json can be read while it runs
	@mkdir -p $(BUILD)
	@$(GO) test -tags '$(TAGS)' -count=50 -timeout 20h -json $(or $(PACKAGES),./...) >$(BUILD)/flakes.json 2>&1; code=$$?; \
	grep -E '"Action":"(pass|fail|build-fail)"' $(BUILD)/flakes.json | grep -E '"Action":"(build-)?fail"|"Action":"pass","Package":"[^"]*","Elapsed"'; \
	echo "flakes: $$(grep -cE '"Action":"pass","Package":"[^"]*","Elapsed"' $(BUILD)/flakes.json) packages passed fifty times, $$(grep -cE '"Action":"fail","Package":"[^"]*","Test":"[^"/]*"' $(BUILD)/flakes.json) tests failed; all of it is in $(BUILD)/flakes.json"; exit $$code

soak: ## twenty minutes of mixed work on a server over the simulated card: nothing may grow
	AXLE_TEST_SOAK=20m $(GO) test -tags '$(TAGS)' -count=1 -timeout 40m -run 'TestSoak$$' -v ./cmd/axle

#proves:G8 500 kills in pulls, 100 of servers
#proves:G10 a card lost 100 times
#proves:G11 1,000,000 passes
kill-loops: ## the long forms: 500 kills in pulls and 100 of servers, a card lost 100 times, a million passes under the watchdog, 100,000 requests
	AXLE_TEST_KILLS=500 $(GO) test -tags '$(TAGS)' -count=1 -timeout 60m -run 'TestKill$$' -v ./models/store
	AXLE_TEST_KILLS=100 $(GO) test -tags '$(TAGS)' -count=1 -timeout 60m -run 'TestKilledServer$$' -v ./cmd/axle
	AXLE_TEST_RESTARTS=100 $(GO) test -tags '$(TAGS)' -count=1 -timeout 60m -run 'TestCardLostRestarts$$' -v ./cmd/axle
	AXLE_TEST_PASSES=1000000 $(GO) test -tags '$(TAGS)' -count=1 -timeout 60m -run 'TestJitter$$' -v ./engine
	AXLE_REQUESTS=10000 $(GO) test -tags '$(TAGS)' -count=1 -timeout 60m -run 'TestGoldensLoad$$' -v ./cmd/axle
	AXLE_REQUESTS=100000 AXLE_DISCONNECTS=10000 $(GO) test -tags '$(TAGS)' -count=1 -timeout 60m -run 'TestLoad$$|TestManyDisconnects$$' -v ./server

valgrind: ## native and the simulated card under valgrind (needs it installed; slow)
	sh axcl/native/testdata/valgrind.sh

clients: scripted ## all clients, the ollama CLI and Ollama's integration suite (needs node; takes long)
	bash testdata/clients/run.sh all

#proves:T20
#proves:T21 measured, 62 texts
ui: build scripted ## drive the page in headless Chromium, measure it, and look at it with axe-core; keeps build/ui/*.png
	bash testdata/ui/run.sh whole

ui-soak: scripted ## an hour of streams in the page, and its memory
	bash testdata/ui/run.sh soak

proxies: scripted ## what clients lose behind HAProxy and Caddy while one of three servers ends, dies or is full (needs them; else skips aloud)
	$(GO) run -tags '$(TAGS)' ./testdata/proxies
	AXLE_TEST_PROXIES=1 $(GO) test -tags '$(TAGS)' -count=1 -run 'TestHAProxy' -v ./packaging

arm64: ## cross-build, and run native's suite under qemu-user (installs Debian's toolchain where it lacks)
	bash packaging/arm64.sh '$(TAGS)' '$(LDFLAGS)'

avx512: ## the software card's kernels for AVX-512 on an emulated processor (builds Bochs once, boots Debian's kernel; else skips aloud)
	bash packaging/avx512.sh '$(TAGS)'

template-truth: ## 120,000 random templates, ours beside Python's jinja2 (needs Debian's python3-jinja2; else skips aloud)
	AXLE_TEMPLATE_TRUTH=$(or $(RENDERINGS),120000) $(GO) test -count=1 -timeout 60m -run 'TestTruth$$' -v ./tokenizer/jinja

tokenizer-truth: ## compare with Hugging Face's tokenizers over real files (needs node)
	bash testdata/tokenizer/truth.sh
	$(GO) test -count=1 -run Truth -v ./tokenizer
	$(GO) test -count=1 -run Goldens ./tokenizer/chat

sugarme: ## compare our tokenizer with the one the owner named
	cd third_party/sugarme && $(GO) run .

##@ Measurements

bench: ## benchmarks over the simulated card, its clock set to a Raspberry Pi 5's
	$(GO) test -tags '$(TAGS)' -run '^$$' -bench . -benchtime 1x ./axcl/native ./engine
	$(GO) test -tags '$(TAGS)' -count=1 -run 'TestThroughput|TestPassTime|TestSpeculation|TestSecondTurn|TestLongContext' -v ./engine
	$(GO) test -tags '$(TAGS)' -count=1 -run 'TestForeign/plain/loops' -v ./axcl/simcard
	$(GO) test -tags '$(TAGS)' -count=1 -run 'TestOnBoard$$' -v ./axcl/native

bench-check: ## ratios that must hold, on the simulated card's clock or against plain loops
	$(GO) test -tags '$(TAGS)' -count=1 -run 'TestThroughput|TestLeftOver|TestPassTime|TestSpeculationPays|TestSecondTurn|TestPromptsInTurn' -v ./engine
	AXLE_BENCH_CHECK=1 $(GO) test -tags '$(TAGS)' -count=1 -run 'TestHostShare' -v ./axcl/native
	AXLE_BENCH_CHECK=1 $(GO) test -tags '$(TAGS)' -count=1 -run 'TestBenchCheck' -v ./cmd/axle ./server

bench-torch: build ## the software card beside PyTorch on a made-up checkpoint, in turn (needs Debian's python3-torch; else skips aloud)
	bash testdata/torch/run.sh

bench-llamacpp: build ## the software card beside llama.cpp's CPU build, in turn (needs node and npm; else skips aloud); STRICT=1 fails below the aims
	bash testdata/llamacpp/run.sh

bench-profile: ## what profiling costs when it is off, in instructions (needs valgrind; else skips aloud)
	bash testdata/profile/run.sh

##@ Remaking data

settings: ## write packaging/axle.env and docs/settings.md from the table in cmd/axle/settings.go
	AXLE_TEST_SETTINGS=1 $(GO) test -tags '$(TAGS)' -count=1 -run '^TestSettingsFiles$$' ./cmd/axle

template-goldens: ## make the templates' goldens anew with Python's jinja2 (overwrites the committed ones)
	PYTHONDONTWRITEBYTECODE=1 /usr/bin/python3 testdata/templates/make.py

ui-vendor: ## fetch the page's libraries from npm anew, at the versions and hashes of server/ui/vendor.sh
	bash server/ui/vendor.sh

# What each of its four stages takes, and where it goes. Less time makes a worse model: elsewhere, then, so that none ships by mistake.
MINUTES ?= 75 36 38 10
INTO    ?= models/pocket/pocket
TRYING  = $(filter-out models/pocket/pocket,$(INTO))
FEW     = $(if $(TRYING),--questions 4)
LEARN   := OMP_NUM_THREADS=1 /usr/bin/python3 testdata/pocket/
pocket: build ## train the model that ships inside anew: under three hours, needs Debian's python3-torch and python3-pil (MINUTES="1 1 1 1" INTO=build/try to try)
	@/usr/bin/python3 -c 'import torch, PIL' || { echo "pocket: apt-get install python3-torch libopenblas0-pthread python3-numpy python3-regex python3-pil"; exit 1; }
	@test $(words $(MINUTES)) = 4 || { echo "pocket: MINUTES are four numbers, one a stage"; exit 1; }
	@test "$(MINUTES)" = "75 36 38 10" || test -n "$(TRYING)" || { echo "pocket: with other MINUTES than what ships took, say INTO=build/try"; exit 1; }
	$(LEARN)train.py --out $(BUILD)/pocket --minutes $(word 1,$(MINUTES)) $(FEW)
	$(LEARN)train_sight.py eye --out $(BUILD)/pocket --minutes $(word 2,$(MINUTES))
	$(LEARN)train_sight.py words --out $(BUILD)/pocket --minutes $(word 3,$(MINUTES)) $(FEW)
	$(LEARN)train_sight.py words --out $(BUILD)/pocket --minutes $(word 4,$(MINUTES)) $(FEW) --resume --lr 6e-4 --every 1 --text 3
	test -n "$(TRYING)" || rm -rf $(INTO)
	bin/axle compile --from $(BUILD)/pocket/hf --out $(INTO) --context 1023 --chunk 64 --history 0,64,192,448,896 --quant int8 --picture 96x96 --name pocket
	test -n "$(TRYING)" || $(MAKE) pocket-goldens

pocket-goldens: ## make pocket's golden answers anew from the weights in the tree (overwrites the committed ones)
	$(GO) test -tags '$(TAGS)' -count=1 ./models/pocket -run 'TestGoldens$$|TestKnownAnswers$$' -v -update

##@ Packaging

deb: build ## dist/axle_VERSION_ARCH.deb for this machine
	bash packaging/deb.sh $(VERSION) $(HOSTARCH) bin/axle

build-arm64: ## build/arm64/axle, cross-built with Debian's gcc-aarch64-linux-gnu
	@command -v $(CROSS) >/dev/null || { echo "build-arm64: $(CROSS) is not installed: apt-get install gcc-aarch64-linux-gnu libc6-dev-arm64-cross" >&2; exit 1; }
	CGO_ENABLED=1 GOARCH=arm64 CC=$(CROSS) $(GOBUILD) -o $(BUILD)/arm64/axle ./cmd/axle

deb-arm64: build build-arm64 ## the same for arm64
	HOSTBIN=bin/axle bash packaging/deb.sh $(VERSION) arm64 $(BUILD)/arm64/axle

deb-test: deb deb-arm64 ## lintian; install the packages in fresh chroots, type what the pages say, remove and purge them (root, debootstrap, qemu-user-static; else skips aloud)
	bash packaging/lint.sh dist/axle_$(VERSION)_$(HOSTARCH).deb dist/axle_$(VERSION)_arm64.deb
	bash packaging/chroot.sh $(HOSTARCH) dist/axle_$(VERSION)_$(HOSTARCH).deb
	test $(HOSTARCH) = arm64 || bash packaging/chroot.sh arm64 dist/axle_$(VERSION)_arm64.deb

dist: build ## reproducible archives with checksums, for this machine and for arm64 where that can be cross-built
	bash packaging/dist.sh $(VERSION) $(HOSTARCH) bin/axle
	@if [ $(HOSTARCH) = arm64 ]; then :; elif command -v $(CROSS) >/dev/null; then \
		$(MAKE) --no-print-directory build-arm64 && bash packaging/dist.sh $(VERSION) arm64 $(BUILD)/arm64/axle; \
	else echo "dist: arm64 SKIPPED: apt-get install gcc-aarch64-linux-gnu libc6-dev-arm64-cross"; fi
