# make check   what needs no server, in a minute: format, vet of the core, unit tests, the suite in fake time
# make test    what the README says: all seven stores, those with a server as real ones: 10 minutes on two cores
# make test STORE=redis   one store, with the race detector: redis, etcd, zookeeper, memcached, postgres
# make ci      what has to pass before a change lands: 15 minutes on two cores
# make nightly what takes longer: the race detector on all stores, clusters, sentinels, poolers, containers, other versions
#              of the servers, chaos, long histories, crowds, fuzzing, examples, Envoy's limits beside the original
# make generate   the files that are made of others: code of .proto files, the snapshot of the API in api/, snippets and
#              tables in docs
# make bench   benchmarks, as ratios to the bare store commands of the same run
# make bench-peers  coord against other libraries, some 35 minutes of a machine that does nothing else
#              (BENCH="-rounds 1 -for 200ms -run herd" for less); docs/generated/performance-peers.md is made of it
# make bench-envoy  coord serve as Envoy's rate-limit service against envoyproxy/ratelimit and gubernator, which it builds: some
#              8 minutes of a machine with Linux that does nothing else (BENCH="-rounds 1 -for 200ms -run 64/1/1" for less);
#              docs/generated/performance-envoy.md is made of it
# make fuzz    every fuzz target for a while (FUZZTIME=10s each)
# make release archives of the command for every platform, in dist/
# make rehearsal   everything that a release makes, from this commit and tried: modules, archives, bills of materials, image
# make vulncheck   known vulnerabilities in what each released module calls; needs vuln.go.dev
# make versions    the conformance suites on etcd 3.5 and 3.6, Valkey, Redis 8 and ZooKeeper 3.9, some 20 minutes
# make demo    the demonstration on the embedded file store

GO       ?= go
# All is compiled as scripts/release does it, once for checks, tests and the release; and once more for the race detector,
# which needs cgo. Tests that compile programs do so without it, as all else.
export CGO_ENABLED = 0
export GOFLAGS    += -trimpath
# One processor: with more, two threads may run timers of a bubble of testing/synctest that are due at once, with one context
# of the race detector, which then breaks (Go 1.26: SIGSEGV in StackDepot, or "CHECK failed: tsan_rtl.cpp"). Most of
# what is not ordered is found all the same. Several packages run at once, so the other processors have work.
RACE      = CGO_ENABLED=1 $(GO) test -race -cpu 1 -exec 'env CGO_ENABLED=0'
# -modfile is not allowed in a workspace. Programs that look at packages run in it, so only their path is asked for.
TOOL      = GOWORK=off $(GO) tool -modfile=$(CURDIR)/internal/tools/go.mod
TOOLS     = cd internal/tools && GOWORK=off $(GO) run
REPORT    = $(GO) run ./internal/testreport
STORES    = redis etcd zookeeper memcached postgres network chromium clients
comma    := ,
space    := $(subst ,, )
REQUIRE   = $(subst $(space),$(comma),$(STORES))
# go.work has the modules: one with a "replace" is released. "./..." is the packages of one module alone.
CORE     := $(shell scripts/modules released) internal/repo
OTHERS   := $(filter-out $(CORE),$(shell scripts/modules))
PACKAGES := $(patsubst ././...,./...,$(CORE:%=./%/...))
BACKENDS := ./backends/... $(filter ./backends/%,$(PACKAGES))
FUZZTIME ?= 10s
# A module of its own, in no workspace: it asks the original of server/envoy, with all that this requires.
RECORD    = server/envoy/testdata/record
PROTOS    = server/coordpb/coord.proto
# The engines and what stands on them: they have the race detector in every run. None needs a server.
RACED     = . ./driver/... ./conformance/... ./backends/memory ./internal/hold ./internal/permit ./internal/quorum ./internal/sim \
            ./rules ./httpcoord ./grpccoord ./otelcoord ./server/... ./coordtest
# Tests that read files of other modules, such as docs. The go command does not see when those change, so that it must not
# take results from its cache.
READERS   = ./internal/repo/house ./internal/repo/docsnippets ./server/envoy ./cmd/internal/cli
# The packages that take longest come first, so that none is alone at the end.
SLOW      = ./backends/zookeeper ./backends/etcd ./backends/postgres ./backends/redis ./backends/memcached ./cmd/coord
# Packages and tests that run at once. Most of the time they wait for a server or for a lease to end.
P        ?= 4
PARALLEL ?= 8
# What only make nightly runs: the suite on clusters, sentinels, a quorum of servers, poolers and other clients; chaos; crowds.
NIGHTLY   = ^TestConformance.+|^TestChaos.|^TestNightly
TESTING   = -vet=off -count=1 -parallel $(PARALLEL) -timeout 15m -json
# A race detector allocates: what counts allocations runs without it, too.
ALLOCATIONS = . ./driver/...
# True where a Docker engine answers: stores are then tested in containers too.
DOCKER    = docker info >/dev/null 2>&1
# How many commits are recent.
RECENT   ?= 30

.PHONY: check test ci nightly generate stores images format vet lint cross api release-changed release release-check rehearse rehearsal vulncheck versions bench bench-peers bench-envoy fuzz demo build

check: format
	$(GO) vet ./...
	$(GO) test $(RACED) ./internal/...
	$(GO) test -count=1 $(READERS)

# Where a store is named, its tests run with the race detector. Else two go commands run beside each other, each of which
# writes to a named pipe: most tests of stores wait, and those of the core keep a processor busy.
ifdef STORE
test: export COORD_TEST_REQUIRE = $(STORE),network
test:
	@scripts/stores $(STORE) network
	@$(RACE) $(TESTING) -skip '$(NIGHTLY)' ./backends/$(STORE)/... | $(REPORT)
else
test: export COORD_TEST_REQUIRE = $(REQUIRE)
test: stores
	@pipes=$$(mktemp -d) && trap 'rm -rf "$$pipes"' EXIT && mkfifo $$pipes/stores $$pipes/core && \
	raced=$$($(GO) list $(RACED)) && others=$$($(GO) list $(PACKAGES) | grep -vxF "$$raced") && \
	{ $(GO) test $(TESTING) -p $(P) -skip '$(NIGHTLY)' $(SLOW) $$others >$$pipes/stores & } && \
	{ { $(RACE) $(TESTING) -p 2 -skip '$(NIGHTLY)' $$raced; \
	    $(GO) test $(TESTING) -run Allocations $(ALLOCATIONS); } >$$pipes/core & } && \
	$(REPORT) $$pipes/stores $$pipes/core
endif

# All that takes longer, one after the other, so that the first failure does not hide others. The requests to the original of
# Envoy's limits take a minute of two cores; they print a seed.
nightly: export COORD_TEST_REQUIRE = $(REQUIRE)
nightly: stores images
	{ $(RACE) $(TESTING) -p 2 $(SLOW) $(PACKAGES); $(GO) test $(TESTING) $(RACED); \
	  for m in $(filter-out internal/containers,$(OTHERS)); do (cd $$m && $(GO) test $(TESTING) ./...); done; \
	  ! $(DOCKER) || (cd internal/containers && COORD_TEST_REQUIRE_CONTAINERS=1 $(GO) test $(TESTING) -parallel 2 ./...); } \
	| $(REPORT) -matrix docs/generated/compatibility.md
	$(GO) test -count=1 -timeout 2h -v -run TestChaos ./internal/repo/faults -for 5m
	$(GO) test -count=1 -timeout 1h -v -run TestServeAttack ./cmd/coord -for 5m
	COORD_SIM_MUTANTS=1 $(GO) test -count=1 -timeout 2h ./internal/sim -seeds 2000
	$(GO) test -count=1 -timeout 1h -v -run TestNightlyOriginal ./server/envoy -requests 100000
	scripts/fuzz $(FUZZTIME)
	scripts/versions

stores:
	@scripts/stores $(STORES)

images:
	@if $(DOCKER); then scripts/images; else echo "images: no Docker engine here: stores are tested as processes only"; fi

ci: format vet lint cross api release-changed test

# A release is rehearsed when what it is made of has changed in one of the last commits.
release-changed:
	@if git log -$(RECENT) --format= --name-only | grep -qE '(^|/)go\.(mod|work)$$|^scripts/|^Dockerfile$$|^Makefile$$'; \
	then $(MAKE) --no-print-directory release-check rehearse; else echo "release-changed: nothing of a release has changed"; fi

format:
	@out=$$($(TOOL) gofumpt -l .); test -z "$$out" || { echo "not gofumpt'ed:"; echo "$$out"; exit 1; }

vet:
	$(GO) vet work
	cd $(RECORD) && GOWORK=off $(GO) vet .
	@scripts/tidy -diff

lint:
	$(TOOLS) ./licences . ../.. ../../$(RECORD)
	$$($(TOOL) -n staticcheck) work

# Each platform's types are checked, also of tests where an int has 64 bits. Code for them is generated by rehearsal.
cross:
	$(TOOLS) ./typecheck -dir $(CURDIR) -packages "$(PACKAGES)" darwin/arm64 windows/amd64 linux/386 linux/arm

api:
	@scripts/apicheck
	$(TOOLS) ./apisnapshot -dir $(CURDIR) -out $(CURDIR)/api -check $(PACKAGES)
	$(TOOLS) ./protogen -dir $(CURDIR) -check $(PROTOS)

generate:
	$(TOOLS) ./protogen -dir $(CURDIR) $(PROTOS)
	$(TOOLS) ./apisnapshot -dir $(CURDIR) -out $(CURDIR)/api $(PACKAGES)
	$(GO) test ./internal/repo/docsnippets -update
	$(GO) test ./conformance -run 'TestCasesDoc|TestContractNames' -update
	$(GO) test ./internal/repo/house -run TestClaimsTable -update

release:
	scripts/release

release-check:
	@scripts/release-check

rehearse:
	@scripts/rehearse

rehearsal: export PLATFORMS = darwin/arm64 windows/amd64
rehearsal: api rehearse release-check

vulncheck:
	@check=$$($(TOOL) -n govulncheck) && for m in $(CORE); do echo "vulncheck: $$m"; (cd $$m && $$check ./...) || exit 1; done

versions:
	@scripts/versions

bench:
	$(GO) test -run "^$$" -bench . -benchmem . ./driver/... $(BACKENDS) ./httpcoord ./grpccoord

bench-peers: stores
	cd bench && $(GO) run . $(BENCH) -docs ../docs/generated

bench-envoy:
	@scripts/stores redis
	cd bench && $(GO) run ./envoy $(BENCH) -docs ../docs/generated

fuzz:
	@scripts/fuzz $(FUZZTIME)

demo:
	$(GO) run ./demo

build:
	$(GO) build -trimpath -o bin/coord ./cmd/coord
