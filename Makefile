# CONTRIBUTING.md explains each target. Needs Go 1.26; tests also use git, and node with npm if installed.
SHELL      := /bin/bash -euo pipefail
GO         ?= go
FUZZTIME   ?= 10s
SOAK       ?= 600# seconds
SOAKLOAD   ?= 1800# seconds
COPIES     ?= -1# every write and flush, which takes an hour or two
LOOPS      ?= 1000
FAULTS     ?= 50# rounds of each test of faults
RUNS       ?= 200
BIN        ?= bin
# The commit is stamped into the binaries if this is a git checkout that git accepts.
VCS        := $(shell git rev-parse -q --verify HEAD >/dev/null 2>&1 && echo true || echo false)
GOBUILD    := CGO_ENABLED=0 $(GO) build -trimpath -buildvcs=$(VCS) -ldflags '-s -w'
# Each skill call starts spritekit, and a start takes longer for a larger binary. So it is built without HTTP/2, and functions are
# inlined only in hot packages: the runtime, JSON, hashes, compression, search and git's objects.
HOT        := runtime runtime/internal/... internal/runtime/... internal/bytealg sync sync/atomic bytes strings unicode/utf8 \
              strconv internal/strconv encoding/json encoding/binary hash/... crypto/sha256 crypto/internal/fips140/sha256 \
              crypto/sha1 bufio io os syscall internal/poll golang.org/x/sys/unix slices sort cmp maps reflect compress/... \
              regexp regexp/syntax $(addprefix github.com/spritekit/lattice/,skills/fs/... skills/ignore skills/git/native/... \
              spritekit/protocol) github.com/go-git/... github.com/pjbgf/...
LEAN       := -tags nethttpomithttp2 -gcflags=all=-l $(foreach p,$(HOT),-gcflags=$(p)=)
# The init of sandboxes is a separate program inside lattice; a plain go build leaves it out.
INITFILE   := orchestrator/host/initfile
SYSTEMS    := linux/arm64 darwin/arm64 darwin/amd64
# The packages whose tests take longest come first, so that no processor waits for them at the end.
PACKAGES   ?= ./orchestrator ./skills ./orchestrator/host ./skills/git ./orchestrator/worktree ./...
RUN        ?=# a regular expression of tests to run, if not all
SKIP       ?=# a regular expression of tests to leave out
PARALLEL   ?=# how many tests of a package run side by side, if not one on each processor
VETTED     ?=# not empty: lint has vetted the tests' packages, so go test does not again

.PHONY: build temporal temporal-test static test race script oracle fuzz schema check lint cross typecheck bench bench-peers soak scale demo man vuln corpus release release-check remote image rootfs oci smoke clean

build: ## the binaries: spritekit with its second file, and lattice
	@echo "build $(BIN)/spritekit, $(BIN)/spritekit-extra, $(BIN)/lattice"
	@$(GOBUILD) $(LEAN) -o $(BIN)/spritekit ./spritekit
	@$(GOBUILD) $(LEAN) -o $(BIN)/spritekit-extra ./spritekit/extra
	@$(GOBUILD) -o $(INITFILE)/boxinit ./orchestrator/host/sandbox/boxinit
	@$(GO) tool buildid $(INITFILE)/boxinit | sed "s,.*/,," >$(INITFILE)/boxinit.id
	@$(GOBUILD) -tags boxinit -o $(BIN)/lattice ./orchestrator
temporal: build ## bin/temporal/lattice: lattice with the driver for a Temporal server, a module of its own
	@cd orchestrator/temporal && $(GOBUILD) -tags boxinit -o ../../$(BIN)/temporal/lattice ./lattice
	@ln -sf ../spritekit ../spritekit-extra $(BIN)/temporal/
temporal-test: temporal ## the driver, with a real server if LATTICE_TEMPORAL names the binary temporal
	cd orchestrator/temporal && $(GO) vet ./... && $(GO) test -count=1 ./...
	@[ -z "$${LATTICE_TEMPORAL-}" ] || $(GO) test -count=1 -run 'TestNodesWithTemporal' ./orchestrator
	@[ -n "$${LATTICE_TEMPORAL-}" ] || echo "skipped: the tests with a real server, since LATTICE_TEMPORAL does not name the binary temporal"
static: build ## no dynamic linking; spritekit within its 8 MiB
	$(GO) test -count=1 -run 'TestBinar' -v .
test: build ## all tests; lists at the end the skipped ones, and why
	@{ CGO_ENABLED=0 $(GO) test -timeout 90m -json $(if $(VETTED),-vet=off) $(if $(PARALLEL),-parallel $(PARALLEL)) $(if $(RUN),-run '$(RUN)') $(if $(SKIP),-skip '$(SKIP)') $(PACKAGES) 2>&1 && echo "exit 0" || echo "exit $$?"; } | CGO_ENABLED=0 $(GO) run ./scripts/testreport $(TESTFLAGS) $(GO) test -timeout 90m
race: build
	$(GO) test -race ./...
script: build ## user-visible behaviour, written as txtar scripts
	$(GO) test -count=1 -run 'Script' ./orchestrator/... ./spritekit/...
oracle: ## conditions decide as the Common Expression Language does, and the OpenTelemetry Collector reads traces; modules of their own, as the benchmark
	cd orchestrator/ir/oracle && $(GO) test -count=1 . -rapid.checks=10000
	cd oracle/traces && $(GO) test -count=1 .
	cd scripts/bench && $(GO) vet . && $(GO) test -count=1 .
fuzz: ## every fuzz target for FUZZTIME
	@for pkg in $$(grep -rl --include='*_test.go' '^func Fuzz' . | xargs -n1 dirname | sort -u); do \
	  for f in $$(grep -h -o '^func Fuzz[A-Za-z0-9_]*' $$pkg/*_test.go | cut -c6-); do echo "== $$pkg $$f"; \
	    $(GO) test -run '^$$' -fuzz "^$$f\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 10x $$pkg; done; done
corpus: ## fuzz every target for FUZZTIME, and keep small inputs that reach new code in testdata/fuzz
	$(GO) run ./scripts/corpus -time $(FUZZTIME)
vuln: ## known vulnerabilities that the code can reach; VULNDB names another database than Go's
	$(GO) run ./scripts/vuln $(if $(VULNDB),-db $(VULNDB)) $(VULNFLAGS)
schema: ## write manifests/schema from the Go types; a test fails if it is out of date
	$(GO) run ./scripts/genschema manifests/schema
check: lint static cross test
lint:
	@unformatted=$$(gofmt -l $$(git ls-files '*.go' 2>/dev/null || find . -name '*.go')); [ -z "$$unformatted" ] || { echo "gofmt: $$unformatted"; exit 1; }
	$(GO) vet ./...
	$(GO) tool -modfile=tools.mod staticcheck ./...
cross: ## the other systems compile
	@for t in $(SYSTEMS); do echo "$$t"; GOOS=$${t%/*} GOARCH=$${t#*/} $(GOBUILD) ./spritekit ./spritekit/extra ./orchestrator; done
typecheck: ## the types of all packages are right for the other systems; seconds, where cross compiles for minutes
	$(GO) run ./scripts/typecheck $$(echo $(SYSTEMS) | tr ' ' ,) ./spritekit ./spritekit/extra ./orchestrator
bench: ## the figures of BENCH.md, compared with other programs
	$(GO) -C scripts/bench run .
bench-peers: ## the engine compared with other engines that are installed or can be downloaded
	$(GO) -C scripts/bench run . --peers
soak: build ## kill at random moments for SOAK seconds, kill LOOPS loops, lose the power at COPIES moments, or at each write and flush, work off 10,000 requests for workers, use one leader in all ways at once for SOAKLOAD seconds
	$(GO) test -count=1 -timeout 0 -run TestKillAnytime -v ./orchestrator -soak $(SOAK)s
	$(GO) test -count=1 -timeout 0 -run TestKillLoops -v ./orchestrator -soak-loops $(LOOPS)
	$(GO) test -count=1 -timeout 0 -run TestPowerLossCopies -v ./orchestrator -power-copies $(COPIES)
	$(GO) test -count=1 -timeout 0 -run '^Test(FramesAreLost|KillEachKind|SpritesTakeAll|DisksThatAreSlowOrFail|ClockJumps)$$' -v ./orchestrator -soak-faults $(FAULTS)
	$(GO) test -count=1 -timeout 0 -run TestQueueDrains -v ./orchestrator -queue 10000
	$(GO) test -count=1 -timeout 0 -run TestMixedLoad -v ./orchestrator -soak-load $(SOAKLOAD)s
scale: build $(if $(LATTICE_TEMPORAL),temporal) ## PostgreSQL and three nodes on this machine: RUNS runs, kill -9 of the leader half-way, and what happened; again with Temporal
	@$(GO) build -o $(BIN)/scale ./scripts/scale
	@exec $(BIN)/scale --bin $(BIN) --runs $(RUNS) --temporal "$(LATTICE_TEMPORAL)"
demo: build
	scripts/demo
man: build ## a manual page for each command and skill, in bin/man/man1: man -M bin/man lattice-run
	$(GO) run ./scripts/genman $(BIN)/man/man1 $(BIN)/lattice $(BIN)/spritekit
remote: ## spritekit for remote sprites of both architectures
	@for a in amd64 arm64; do for f in spritekit spritekit/extra; do \
	  GOOS=linux GOARCH=$$a $(GOBUILD) $(LEAN) -o bin/$${f/\//-}-linux-$$a ./$$f; done; done
image: build ## /skills as a plain tar
	rm -rf bin/skills && bin/spritekit install bin/skills
	tar --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner -C bin -cf bin/skills.tar skills && ls -l bin/skills.tar
rootfs: ## a Debian root filesystem, bin/debian.tar
	@mkdir -p $(BIN)
	images/rootfs/build $(BIN)/debian.tar
oci: build ## Debian with the skills as an OCI layout, bin/sprite.oci
	images/oci/build $(BIN)/sprite.oci
smoke: build remote ## each recipe of images/, and a test of all skill families in the result
	images/rootfs/smoke
	images/oci/smoke
	images/golden/smoke
	images/docker/smoke
	images/lease/smoke
release: ## archives, Debian packages, bills of materials and checksums of a clean checkout, in bin/release
	cd scripts/release && $(GO) run . $(RELEASEFLAGS)
release-check: build ## builds a release twice and compares, installs its package in a sprite and removes it
	cd scripts/release && $(GO) vet . && $(GO) test -count=1 .
	scripts/release/smoke
clean:
	rm -rf bin .work
