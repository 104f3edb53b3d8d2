# `make run` starts the server with the model that ships inside. `make test` runs the tests. `make help` lists the rest.
GO       ?= go
VERSION  ?= 0.2.0
TAGS     := nomsgpack
LDFLAGS  := -s -w -X main.version=$(VERSION)
BUILD    := build
FUZZTIME ?= 30s
SHELL    := /bin/bash
HOSTARCH := $(shell $(GO) env GOARCH)
CROSS    := aarch64-linux-gnu-gcc
.DEFAULT_GOAL := help
GOBUILD   = $(GO) build -trimpath -buildvcs=false -buildmode=pie -tags '$(TAGS)' -ldflags '$(LDFLAGS)'

.PHONY: help build run test quick ci ci-long objects kubernetes lint race nocgo asan sweep mutants fuzz rules sim scripted clients-ci clients arm64 bench bench-check bench-torch bench-llamacpp bench-profile ui ui-quick ui-soak ui-vendor proxies settings template-goldens template-truth soak kill-loops valgrind tokenizer-truth pocket hearing search pocket-goldens build-arm64 deb deb-arm64 deb-test dist
##@ Everyday

build: ## bin/axle (needs Go and gcc, no SDK and no card)
	$(GOBUILD) -o bin/axle ./cmd/axle

run: build ## start the server on the best device it finds, with the built-in model
	bin/axle serve --hello

test: ## every test that a fresh machine can run
	$(GO) test -tags '$(TAGS)' -timeout 30m $(if $(SWEPT),-vet=off -ldflags='-s -w' -parallel 4 -skip '^($(SWEPT))$$') ./...

quick: ## formatting, vet, and the fast tests of every package: a minute after a small change
	@out=$$(gofmt -l $$(git ls-files '*.go')); test -z "$$out" || { echo "not gofmt'ed:"; echo "$$out"; exit 1; }
	$(GO) test -p 4 -parallel 8 -short -vet=off -tags '$(TAGS)' -ldflags='-s -w' ./...
	$(GO) vet -tags '$(TAGS)' ./...
	@bash testdata/short.sh

lint: ## formatting, vet, shell syntax
	@out=$$(gofmt -l $$(git ls-files '*.go')); test -z "$$out" || { echo "not gofmt'ed:"; echo "$$out"; exit 1; }
	$(GO) vet -tags '$(TAGS)' ./...
	$(GO) vet -tags '$(TAGS) scripted' ./cmd/axle ./server/...
	@for arch in arm64 riscv64; do GOFLAGS= GOARCH=$$arch CGO_ENABLED=0 $(GO) vet -tags '$(TAGS)' ./axcl/soft/... && GOFLAGS= GOARCH=$$arch CGO_ENABLED=0 $(GO) build ./axcl/soft/kernel || exit 1; done
	@for f in $$(git ls-files '*.sh') .ci/run; do bash -n $$f || exit 1; done
	@if command -v staticcheck >/dev/null; then staticcheck -checks inherit,-SA1019 -tags '$(TAGS)' ./...; else echo "lint: staticcheck SKIPPED, it is not installed"; fi

help: ## list the targets
	@awk -F':.*## ' '/^##@/{printf "%s%s\n", n++ ? "\n" : "", substr($$0, 5)} /^[a-z0-9-]+:.*## /{printf "  %-15s %s\n", $$1, $$2}' Makefile

##@ Lanes that CI runs

# CI runs three lanes at a time, each one package at a time (testdata/lanes.sh). What fails soonest comes first, then the longest.
LANES := lint build race test fuzz asan clients-ci ui-quick nocgo sweep
ci: export FUZZTIME := $(if $(filter file,$(origin FUZZTIME)),2s,$(FUZZTIME))
# CI's lane test leaves these to the lanes sweep and asan, which run them too, and vet to the lane lint. Tests that
# may run at the same time wait more than they compute.
ci: export SWEPT := TestSweep|TestSweepTwo|TestSweepStates|TestSweepShared|TestConformance|TestGraphReaders|TestHostShare|TestOnBoard
# Races are looked for in the short forms; ci-long has the long ones.
ci: export SHORT := -short
ci: ## every lane that CI runs, three at a time; their output is in build/ci
	@MAKE='$(MAKE)' bash testdata/lanes.sh $(LANES)

#proves:T7 for minutes, and a thousand hostile documents
#proves:G25 10,000 requests, 25 loads
ci-long: ## what does not fit into ci: a day of requests, all loads compared with a fresh card, minutes of hostile clients, all goldens
	AXLE_TEST_DAY=10000 AXLE_TEST_FRESH=1 AXLE_TEST_RATES=1 $(GO) test -tags '$(TAGS)' -count=1 -timeout 60m -run 'TestDay$$|TestAsFresh$$|TestHeadRates$$' -v ./engine
	AXLE_TEST_MIX=100 AXLE_TEST_GOLDENS=1 $(GO) test -tags '$(TAGS)' -count=1 -timeout 60m -run 'TestMemoryOfMix$$|TestGoldens$$' -v ./cmd/axle
	$(MAKE) kubernetes objects race
	AXLE_TEST_FILES=1000 $(GO) test -tags '$(TAGS)' -count=1 -timeout 20m -run 'TestHostileFiles$$' -v ./documents/extract
	AXLE_TEST_HEARD=300 $(GO) test -tags '$(TAGS)' -count=1 -timeout 20m -run 'TestFresh$$' -v ./models/hearing

objects: ## rows in a real object store, versitygw: a module of its own, which needs the network once
	cd testdata/objects && if $(GO) mod download; then $(GO) test -count=1 -timeout 30m .; else \
		echo "objects: SKIPPED: versitygw cannot be fetched; no real object store was asked" >&2; fi

kubernetes: ## the manifests of packaging/kubernetes, with Kubernetes' own types: a module of its own, which needs the network once
	cd testdata/kubernetes && if $(GO) mod download; then $(GO) test -count=1 .; else \
		echo "kubernetes: SKIPPED: the types of Kubernetes cannot be fetched; nothing was checked" >&2; fi

# The race detector can find something only where a goroutine is started or waited for. The C of axcl/simcard has a lane of its own, asan.
# Arithmetic that writes into its caller's buffers alone, and the references of tests, are not instrumented: they would take most of the lane's time.
# None of them may use a generic type with atomics, such as sync.Map: the linker may take their copy of it for all (TestUninstrumented).
# The same goes for the parts of wazero that compile PDFium. audio has one goroutine, a test's.
# The software card starts goroutines that share such buffers, so its own tests run once more with everything instrumented.
RACE := $(GO) test -race -vet=off -ldflags='-s -w' -tags '$(TAGS) invariants' -timeout 20m $(SHORT)
ARITHMETIC := axcl/soft/graph axcl/soft/kernel audio/features models/modelstest
WAZERO := ssa backend/...
#proves:D16 each pass comes from the card's own thread (tag invariants)
race: ## the tests of packages with goroutines, under the race detector
	$(RACE) $(ARITHMETIC:%=-gcflags=github.com/axle-llm/axle/%=-race=false) \
		$(WAZERO:%=-gcflags=github.com/tetratelabs/wazero/internal/engine/wazevo/%=-race=false) $$(git grep -lE '^\s*go [a-z]+[.(]|^\s*"(sync|sync/atomic|.*/errgroup|.*/ranked)"|\.Parallel\(' -- \
		'*.go' ':!axcl/simcard/*.go' ':!*/testdata/*' ':!testdata' ':!third_party' | xargs -n1 dirname | sort -u | grep -vxE 'axcl/soft|audio' | sed 's,^,./,')
	$(RACE) ./axcl/soft

# Packages with files that are chosen by cgo or by the tag fake, and packages that import them.
PURE := ./axcl/... ./engine/... ./cmd/internal/benchmark ./cmd/internal/diagnosis ./cmd/axle ./models/pocket
nocgo: ## the pure-Go build, and the tests of what differs without cgo
	CGO_ENABLED=0 $(GOBUILD) -o $(BUILD)/axle-nocgo ./cmd/axle
	CGO_ENABLED=0 $(GO) vet -tags '$(TAGS)' $(PURE)
	CGO_ENABLED=0 $(GO) test -vet=off -tags '$(TAGS)' ./axcl/cards ./axcl/native ./axcl/simcard/simcardtest ./cmd/internal/benchmark
	CGO_ENABLED=0 $(GO) test -vet=off -tags '$(TAGS)' -run 'TestCommands|TestDoctor|TestLookAgain|TestNoCard|TestGoldens$$|TestTerminal|TestSettings' ./cmd/axle
	$(GO) vet -tags '$(TAGS) fake' $(PURE)

#proves:G1
asan: ## axcl/native and the simulated card under ASan and UBSan, with the sweep of faults
	sh axcl/native/testdata/asan.sh

#proves:G3
sweep: ## every call to the card fails, once and for good; coverage of the C code
	sh axcl/native/testdata/cover.sh

#proves:G5 every parser; two seconds each in CI
fuzz: ## every parser, for FUZZTIME each (30s; CI: 2s)
	bash testdata/fuzz.sh $(FUZZTIME)

clients-ci: scripted ## Go clients, npm ollama and npm openai against the scripted server
	bash testdata/clients/run.sh ci

ui-quick: scripted ## the main paths of the page in headless Chromium
	bash testdata/ui/run.sh quick

scripted: ## bin/axle-scripted: the server with a script instead of a model, for tests of clients
	$(GO) build -trimpath -buildvcs=false -buildmode=pie -tags '$(TAGS) scripted' -o bin/axle-scripted ./cmd/axle

sim: ## build/sim: the simulated card behind the vendor's ABI
	$(GO) run ./axcl/simcard/mksim -o $(BUILD)/sim

##@ Lanes that take longer, run by hand

#proves:G2
mutants: ## plant defects in the C code, one by one: a test must catch each
	bash axcl/native/testdata/mutants.sh

rules: ## take out the rules behind docs/promises.md, one by one: the named test must fail (RULES=D7 for one)
	AXLE_TEST_RULES=$(or $(RULES),all) $(GO) test -count=1 -timeout 2h -run 'TestRules$$' -v .

soak: ## twenty minutes of mixed work on the simulated card: nothing may grow
	AXLE_TEST_SOAK=20m $(GO) test -tags '$(TAGS)' -count=1 -timeout 40m -run 'TestSoak$$' -v ./cmd/axle

#proves:G8 500 kills in pulls, 100 of servers
#proves:G10 a card lost 100 times
#proves:G11 1,000,000 passes
kill-loops: ## 500 kills of pulls and 100 of servers, 100 lost cards, a million passes, 100,000 requests
	AXLE_TEST_KILLS=500 $(GO) test -tags '$(TAGS)' -count=1 -timeout 60m -run 'TestKill$$' -v ./models/store
	AXLE_TEST_KILLS=100 $(GO) test -tags '$(TAGS)' -count=1 -timeout 60m -run 'TestKilledServer$$' -v ./cmd/axle
	AXLE_TEST_RESTARTS=100 $(GO) test -tags '$(TAGS)' -count=1 -timeout 60m -run 'TestCardLostRestarts$$' -v ./cmd/axle
	AXLE_TEST_PASSES=1000000 $(GO) test -tags '$(TAGS)' -count=1 -timeout 60m -run 'TestJitter$$' -v ./engine
	AXLE_REQUESTS=10000 $(GO) test -tags '$(TAGS)' -count=1 -timeout 60m -run 'TestGoldensLoad$$' -v ./cmd/axle
	AXLE_REQUESTS=100000 AXLE_DISCONNECTS=10000 $(GO) test -tags '$(TAGS)' -count=1 -timeout 60m -run 'TestLoad$$|TestManyDisconnects$$' -v ./server

valgrind: ## axcl/native and the simulated card under valgrind (needs valgrind; slow)
	sh axcl/native/testdata/valgrind.sh

clients: scripted ## all clients, the ollama CLI and Ollama's integration suite (needs node)
	bash testdata/clients/run.sh all

#proves:T20
#proves:T21 measured, 62 texts
ui: build scripted ## drive the page in headless Chromium, measure it, check it with axe-core; keeps build/ui/*.png
	bash testdata/ui/run.sh whole

ui-soak: scripted ## an hour of streams in the page, and its memory
	bash testdata/ui/run.sh soak

proxies: scripted ## clients behind HAProxy and Caddy while one of three servers ends, dies or is full (needs both; else it says so and skips)
	$(GO) run -tags '$(TAGS)' ./testdata/proxies
	AXLE_TEST_PROXIES=1 $(GO) test -tags '$(TAGS)' -count=1 -run 'TestHAProxy' -v ./packaging

arm64: ## cross-build, and run axcl/native's suite under qemu-user (installs Debian's toolchain)
	bash packaging/arm64.sh '$(TAGS)' '$(LDFLAGS)'

template-truth: ## 120,000 random templates, compared with Python's jinja2 (needs python3-jinja2; else it says so and skips)
	AXLE_TEMPLATE_TRUTH=$(or $(RENDERINGS),120000) $(GO) test -count=1 -timeout 60m -run 'TestTruth$$' -v ./tokenizer/jinja

tokenizer-truth: ## real tokenizer files, compared with Hugging Face's tokenizers (needs node)
	bash testdata/tokenizer/truth.sh
	$(GO) test -count=1 -run Truth -v ./tokenizer
	$(GO) test -count=1 -run Goldens ./tokenizer/chat

##@ Measurements

bench: ## benchmarks on the simulated card, with a Raspberry Pi 5's clock
	$(GO) test -tags '$(TAGS)' -run '^$$' -bench . -benchtime 1x ./axcl/native ./engine
	$(GO) test -tags '$(TAGS)' -count=1 -run 'TestThroughput|TestPassTime|TestSpeculation|TestSecondTurn|TestLongContext' -v ./engine
	$(GO) test -tags '$(TAGS)' -count=1 -run 'TestForeign/plain/loops' -v ./axcl/simcard
	$(GO) test -tags '$(TAGS)' -count=1 -run 'TestOnBoard$$' -v ./axcl/native

bench-check: ## ratios that must hold
	$(GO) test -tags '$(TAGS)' -count=1 -run 'TestThroughput|TestLeftOver|TestPassTime|TestSpeculationPays|TestSecondTurn|TestPromptsInTurn' -v ./engine
	AXLE_BENCH_CHECK=1 $(GO) test -tags '$(TAGS)' -count=1 -run 'TestHostShare' -v ./axcl/native
	AXLE_BENCH_CHECK=1 $(GO) test -tags '$(TAGS)' -count=1 -run 'TestBenchCheck' -v ./cmd/axle ./server

bench-torch: build ## the software card and PyTorch, in turn (needs python3-torch; else it says so and skips)
	bash testdata/torch/run.sh

bench-llamacpp: build ## the software card and llama.cpp's CPU build, in turn (needs node; else it says so and skips); STRICT=1 fails below the aims
	bash testdata/llamacpp/run.sh

bench-profile: ## instructions that profiling costs while it is off (needs valgrind; else it says so and skips)
	bash testdata/profile/run.sh

##@ Remaking data

settings: ## packaging/axle.env and docs/settings.md, from cmd/axle/settings.go
	AXLE_TEST_SETTINGS=1 $(GO) test -tags '$(TAGS)' -count=1 -run '^TestSettingsFiles$$' ./cmd/axle

template-goldens: ## the templates' goldens, with Python's jinja2
	PYTHONDONTWRITEBYTECODE=1 /usr/bin/python3 testdata/templates/make.py

ui-vendor: ## the page's libraries from npm, at the versions and hashes of server/ui/vendor.sh
	bash server/ui/vendor.sh

# The minutes of the four stages of training, and the folder it writes. A model trained for less time must go elsewhere, so that it cannot ship by mistake.
MINUTES ?= 75 36 38 10
INTO    ?= models/pocket/pocket
TRYING  = $(filter-out models/pocket/pocket,$(INTO))
FEW     = $(if $(TRYING),--questions 4)
LEARN   := OMP_NUM_THREADS=1 /usr/bin/python3 testdata/pocket/
pocket: build ## train the built-in model: three hours, needs python3-torch and python3-pil (MINUTES="1 1 1 1" INTO=build/try to try)
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

# Minutes of the processor, and the folders that are written. As above, what was trained for less must go elsewhere.
HEARING ?= 30
HEARD   ?= models/hearing
hearing: ## train the built-in recogniser of speech: 45 minutes, needs python3-torch and espeak-ng (HEARING=1 HEARD=build/try to try)
	@/usr/bin/python3 -c 'import torch' && command -v espeak-ng >/dev/null || { echo "hearing: apt-get install python3-torch libopenblas0-pthread python3-numpy espeak-ng"; exit 1; }
	@test "$(HEARING)" = 30 || test "$(HEARD)" != models/hearing || { echo "hearing: with other minutes than what ships took, say HEARD=build/try"; exit 1; }
	OMP_NUM_THREADS=1 /usr/bin/python3 testdata/hearing/train.py --out $(BUILD)/hearing --minutes $(HEARING)
	OMP_NUM_THREADS=1 /usr/bin/python3 testdata/hearing/recordings.py $(BUILD)/hearing
	$(GO) run -tags '$(TAGS)' ./testdata/hearing $(BUILD)/hearing $(HEARD)/pocket-hearing $(HEARD)/testdata

SEARCH ?= 7
FOUND  ?= models/search
search: ## train the built-in pair of encoders of pictures and texts: minutes of the processor, needs python3-torch (SEARCH=1 FOUND=build/try to try)
	@/usr/bin/python3 -c 'import torch, PIL' || { echo "search: apt-get install python3-torch libopenblas0-pthread python3-numpy python3-pil"; exit 1; }
	@test "$(SEARCH)" = 7 || test "$(FOUND)" != models/search || { echo "search: with other minutes than what ships took, say FOUND=build/try"; exit 1; }
	OMP_NUM_THREADS=1 /usr/bin/python3 testdata/search/train.py --out $(BUILD)/search --minutes $(SEARCH)
	$(GO) run -tags '$(TAGS)' ./testdata/search $(BUILD)/search $(FOUND)/pocket-search $(FOUND)/testdata

pocket-goldens: ## pocket's golden answers, from the weights in the tree
	$(GO) test -tags '$(TAGS)' -count=1 ./models/pocket -run 'TestGoldens$$|TestReferenceAnswers$$' -v -update

##@ Packaging

deb: build ## dist/axle_VERSION_ARCH.deb for this machine
	bash packaging/deb.sh $(VERSION) $(HOSTARCH) bin/axle

build-arm64: ## build/arm64/axle, cross-built with Debian's gcc-aarch64-linux-gnu
	@command -v $(CROSS) >/dev/null || { echo "build-arm64: $(CROSS) is not installed: apt-get install gcc-aarch64-linux-gnu libc6-dev-arm64-cross" >&2; exit 1; }
	CGO_ENABLED=1 GOARCH=arm64 CC=$(CROSS) $(GOBUILD) -o $(BUILD)/arm64/axle ./cmd/axle

deb-arm64: build build-arm64 ## dist/axle_VERSION_arm64.deb, cross-built
	HOSTBIN=bin/axle bash packaging/deb.sh $(VERSION) arm64 $(BUILD)/arm64/axle

deb-test: deb deb-arm64 ## lintian; install, use, remove and purge the packages in fresh chroots (needs root, debootstrap, qemu-user-static; else it says so and skips)
	bash packaging/lint.sh dist/axle_$(VERSION)_$(HOSTARCH).deb dist/axle_$(VERSION)_arm64.deb
	bash packaging/chroot.sh $(HOSTARCH) dist/axle_$(VERSION)_$(HOSTARCH).deb
	test $(HOSTARCH) = arm64 || bash packaging/chroot.sh arm64 dist/axle_$(VERSION)_arm64.deb

dist: build ## reproducible archives with checksums, for this machine and for arm64
	bash packaging/dist.sh $(VERSION) $(HOSTARCH) bin/axle
	@if [ $(HOSTARCH) = arm64 ]; then :; elif command -v $(CROSS) >/dev/null; then \
		$(MAKE) --no-print-directory build-arm64 && bash packaging/dist.sh $(VERSION) arm64 $(BUILD)/arm64/axle; \
	else echo "dist: arm64 SKIPPED: apt-get install gcc-aarch64-linux-gnu libc6-dev-arm64-cross"; fi
