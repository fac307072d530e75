# make test    real stores, the whole suite, nothing skipped
# make test STORE=redis   the tests of one store: redis, etcd, zookeeper, memcached, postgres
# make check   what needs no server, in a minute: format, vet, lint, unit tests
# make ci      what has to pass before a change lands
# make generate   the files that are made of others: the snapshot of the API in api/, snippets, tables and a diagram in docs
# make bench   benchmarks, as ratios to the bare store commands of the same run
# make bench-peers  coord against other libraries, some 25 minutes of a machine that does nothing else
#              (BENCH="-rounds 1 -for 200ms -run herd" for less); docs/generated/performance-peers.md is made of it
# make bench-shared  read/write locks and semaphores beside recipes for them, some 9 minutes of a machine that does nothing
#              else (BENCH as for bench-peers); docs/generated/performance-shared.md is made of it
# make bench-http  load on the HTTP middleware by hey and wrk, on every store, some three minutes; docs/generated/http-load.md has what it found
# make supplier-plots  twelve processes behind one limit for a minute, on every store; docs/examples.md shows it
# make bench-scale  how cost grows with locks, waiters, clients and keys, some 10 minutes of a machine that does nothing
#              else (BENCH="-mode quick" for less); docs/generated/scaling-figures.md is made of it
# make bench-availability  locks, leaders and writers while processes and the store fail, beside other libraries, some
#              50 minutes of a machine that does nothing else (BENCH="-seeds 1" for less, BENCH="-kinds leaders" for
#              leaders alone); docs/generated/availability.md is made of it
# make soak    the suite on sound drivers, over and over, and on broken ones; clients against stores that
#              break, ten minutes for each kind (SOAK=10m, PASSES=20); reports in docs/soak; what many keys
#              leave behind in each store (KEYS=100000)
# make reports the conformance suite on every store; the page docs/generated/compatibility.md is made of it
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
RACE      = CGO_ENABLED=1 $(GO) test -race -exec 'env CGO_ENABLED=0'
# -modfile is not allowed in a workspace. Programs that look at packages run in it, so only their path is asked for.
TOOL      = GOWORK=off $(GO) tool -modfile=$(CURDIR)/internal/tools/go.mod
TOOLS     = cd internal/tools && GOWORK=off $(GO) run
STORES    = redis etcd zookeeper memcached postgres network hey wrk
REQUIRE   = redis,etcd,zookeeper,memcached,postgres,network,hey,wrk
# go.work has the modules: one with a "replace" is released. "./..." is the packages of one module alone.
CORE     := $(shell scripts/modules released) internal/repo
OTHERS   := $(filter-out $(CORE),$(shell scripts/modules))
PACKAGES := $(patsubst ././...,./...,$(CORE:%=./%/...))
BACKENDS := ./backends/... $(filter ./backends/%,$(PACKAGES))
FUZZTIME ?= 10s
SOAK     ?= 10m
PASSES   ?= 20
KEYS     ?= 100000
# True where a Docker engine answers: stores are then tested in containers too.
DOCKER    = docker info >/dev/null 2>&1
# The packages that take longest come first, so that none is alone at the end.
SLOW      = ./backends/zookeeper ./backends/etcd ./backends/postgres ./cmd/coord ./backends/redis ./conformance \
            ./backends/memcached ./internal/repo/chaos ./internal/repo/docsnippets/adapter .
# Packages whose tests need no server, and take seconds.
UNIT      = . ./driver/... ./internal/hold ./internal/permit ./rules ./httpcoord ./grpccoord ./otelcoord ./coordtest
# Tests that read files of other modules, such as docs. The go command does not see when those change, so that it must not
# take results from its cache.
READERS   = ./internal/repo/house ./internal/repo/docsnippets ./internal/repo/compat ./cmd/coord/internal/cli
# Tests of time share two cores: more packages at once only make each slower. All is compiled before the first test runs,
# because a compiler beside them takes leases away from them. So does vet, which is a target of its own.
P        ?= 2
# Tests of one package that are parallel mostly wait, so that more of them run at once than there are cores.
PARALLEL ?= 4
# They test tests, not coord. Their cases run again, one at a time, where the process was not scheduled, which is rarer
# without the race detector and without other tests beside them.
MUTANTS   = ^TestMutants$$|^TestMutantsAreKilled$$|^TestSoundDriversSurvive$$
# The suite on clusters, on a quorum, over other clients and a pooler: each store has passed it once with the race detector,
# and a quorum of embedded stores in internal/quorum.
VARIANTS  = ^TestConformance.+

.PHONY: test check generate ci stores images format vet lint cross api release release-check rehearse rehearsal vulncheck versions bench bench-peers bench-shared bench-http bench-availability supplier-plots fuzz soak reports demo build

# Programs that use coord, and their libraries, are built as vet built them: the race detector is for coord's own packages.
# The suites in containers are a second run of what has run with it.
ifdef STORE
test: export COORD_TEST_REQUIRE = $(STORE),network
test:
	@scripts/stores $(STORE) network
	$(RACE) -parallel $(PARALLEL) -timeout 15m -json ./backends/$(STORE)/... | $(GO) run ./internal/testreport
else
test: export COORD_TEST_REQUIRE = $(REQUIRE)
test: stores images
	packages=$$($(GO) list $(PACKAGES)) && \
	raced=$$(echo "$$packages" | grep -vE "($$(echo $(READERS:./%=%) | tr ' ' '|'))$$") && \
	{ CGO_ENABLED=1 $(GO) list -race -test -export $$raced >/dev/null; \
	  $(RACE) -vet=off -p $(P) -parallel $(PARALLEL) -skip '$(MUTANTS)|$(VARIANTS)' -timeout 15m -json $(SLOW) $$raced; \
	  $(GO) test -p $(P) -parallel $(PARALLEL) -run '$(VARIANTS)' -timeout 15m -json $(BACKENDS); \
	  $(GO) test -p 1 -run '$(MUTANTS)' -timeout 15m -json ./conformance ./internal/quorum; \
	  $(GO) test -run Allocations -count=1 -json . ./driver/... $(BACKENDS); \
	  $(GO) test -count=1 -json $(READERS); \
	  $(GO) test -run Page -count=1 -json ./bench ./examples/httpload ./examples/supplier; \
	  containers=$$(mktemp); \
	  { ! $(DOCKER) || (cd internal/containers && COORD_TEST_REQUIRE_CONTAINERS=1 $(GO) test -parallel 2 -timeout 15m -json ./...); } >$$containers & \
	  for m in $(filter-out internal/containers,$(OTHERS)); do \
	    (cd $$m && $(GO) test -p 1 -timeout 15m -json ./...); done; \
	  wait; cat $$containers; rm $$containers; } \
	| $(GO) run ./internal/testreport
endif

check: format vet lint
	$(GO) test $(UNIT)
	$(GO) test -count=1 $(READERS)

stores:
	@scripts/stores $(STORES)

images:
	@if $(DOCKER); then scripts/images; else echo "images: no Docker engine here: stores are tested as processes only"; fi

ci: format vet lint cross api release-check rehearse test

format:
	@out=$$($(TOOL) gofumpt -l .); test -z "$$out" || { echo "not gofumpt'ed:"; echo "$$out"; exit 1; }

vet:
	$(GO) vet work
	@scripts/tidy -diff

lint:
	$(TOOLS) ./licences . ../..
	$$($(TOOL) -n staticcheck) work

# Each platform's types are checked, also of tests where an int has 64 bits. Code for them is generated by rehearsal.
cross:
	$(TOOLS) ./typecheck -dir $(CURDIR) -packages "$(PACKAGES)" darwin/arm64 windows/amd64 linux/386 linux/arm

api:
	@scripts/apicheck
	$(TOOLS) ./apisnapshot -dir $(CURDIR) -out $(CURDIR)/api -check $(PACKAGES)

generate:
	$(TOOLS) ./apisnapshot -dir $(CURDIR) -out $(CURDIR)/api $(PACKAGES)
	$(GO) test ./internal/repo/docsnippets -update
	$(GO) test ./conformance -run 'TestCasesDoc|TestContractNames|TestMutantsPage' -update
	$(GO) run ./internal/repo/compat
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
	cd bench && $(GO) run . $(BENCH) -out results/peers.json -docs ../docs/generated

bench-shared: stores
	cd bench && $(GO) run . shared $(BENCH) -out results/shared.json -docs ../docs/generated

bench-http supplier-plots: export COORD_TEST_REQUIRE = $(REQUIRE)
bench-http: stores
	cd examples && COORD_HTTPLOAD_ROUNDS=5 $(GO) test -count=1 -timeout 30m -run TestMeasure ./httpload
	cd examples && $(GO) test ./httpload -run TestPage -update

supplier-plots: stores
	cd examples && COORD_SUPPLIER_PLOTS=1m $(GO) test -count=1 -timeout 30m -run TestPlots ./supplier
	cd examples && $(GO) test ./supplier -run TestPage -update

bench-scale: stores
	cd bench && $(GO) run . scale $(BENCH) -out results/scaling.json -docs ../docs/generated

bench-availability: stores
	cd bench && $(GO) run . availability $(BENCH) -out results/availability.json -docs ../docs/generated

soak: export COORD_TEST_REQUIRE = $(REQUIRE)
soak: stores
	COORD_SOAK_MUTANTS=1 $(GO) test -timeout 1h -count=1 -run TestMutantsUnderTheWholeSuite ./conformance
	$(GO) test -run TestMutantsPage ./conformance -update
	COORD_SOAK_PASSES=$(PASSES) COORD_SOAK_REPORT=$(CURDIR)/docs/soak/conformance.json $(GO) test -timeout 3h -count=1 -v -run TestSoak ./internal/repo/soak
	COORD_SOAK_KEYS=$(KEYS) $(GO) test -timeout 2h -count=1 -v -run TestLongLives ./internal/repo/soak
	COORD_CHAOS=$(SOAK) COORD_CHAOS_REPORTS=$(CURDIR)/docs/soak $(GO) test -timeout 2h -count=1 -v -run TestChaos ./internal/repo/chaos

reports: export COORD_TEST_REQUIRE = $(REQUIRE)
reports: stores
	rm -f docs/generated/compatibility/*.json
	COORD_CONFORMANCE_REPORTS=$(CURDIR)/docs/generated/compatibility $(GO) test -count=1 -p 1 -timeout 30m -run '^TestConformance' $(BACKENDS)
	$(GO) run ./internal/repo/compat
	$(GO) test ./conformance -run TestCasesDoc -update

fuzz:
	@scripts/fuzz $(FUZZTIME)

demo:
	$(GO) run ./cmd/coord demo

build:
	$(GO) build -trimpath -o bin/coord ./cmd/coord
