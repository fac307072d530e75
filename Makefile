# make test    real stores, the whole suite, nothing skipped
# make ci      what has to pass before a change lands
# make bench   benchmarks, as ratios to the bare store commands of the same run
# make bench-peers  coord against other libraries, some 25 minutes of a machine that does nothing else
#              (BENCH="-rounds 1 -for 200ms -run herd" for less); docs/performance.md is made of it
# make bench-http  load on the HTTP middleware by hey and wrk, on every store, some three minutes; docs/http.md has what it found
# make supplier-plots  twelve processes behind one limit for a minute, on every store; docs/examples.md shows it
# make bench-scale  how cost grows with locks, waiters, clients and keys, some 10 minutes of a machine that does nothing
#              else (BENCH="-mode quick" for less); docs/scaling.md is made of it
# make bench-availability  locks while processes and the store fail, beside other libraries, some 20 minutes of a
#              machine that does nothing else (BENCH="-seeds 1" for less); docs/availability.md is made of it
# make soak    the suite on sound drivers, over and over, and on broken ones; clients against clusters that
#              break, ten minutes for each kind (SOAK=10m, PASSES=20); reports in docs/soak
# make reports the conformance suite on every store; the page docs/compatibility.md is made of it
# make fuzz    every fuzz target for a while (FUZZTIME=10s each)
# make release archives of the command for every platform, in dist/
# make demo    the demonstration on the embedded file store

GO       ?= go
TOOL      = $(GO) tool -modfile=internal/tools/go.mod
STORES    = redis etcd zookeeper memcached network hey wrk
REQUIRE   = redis,etcd,zookeeper,memcached,network,hey,wrk
# Modules of their own, whose dependencies are nobody else's.
MODULES   = examples examples/adapter-nats internal/containers bench
FUZZTIME ?= 10s
SOAK     ?= 10m
PASSES   ?= 20
# True where a Docker engine answers: stores are then tested in containers too.
DOCKER    = docker info >/dev/null 2>&1
# Tests of time share two cores: more packages at once only make each slower.
P        ?= 2

.PHONY: test ci stores images format vet lint cross api release release-check bench bench-peers bench-http bench-availability supplier-plots fuzz soak reports demo build

test: export COORD_TEST_REQUIRE = $(REQUIRE)
test: stores images
	{ $(GO) test -race -p $(P) -timeout 15m -json ./...; \
	  $(GO) test -run Allocations -count=1 -json . ./driver/... ./backends/...; \
	  containers=$$(mktemp); \
	  { ! $(DOCKER) || (cd internal/containers && COORD_TEST_REQUIRE_CONTAINERS=1 $(GO) test -race -timeout 15m -json ./...); } >$$containers & \
	  for m in $(filter-out internal/containers,$(MODULES)); do (cd $$m && $(GO) test -race -p 1 -timeout 15m -json ./...); done; \
	  wait; cat $$containers; rm $$containers; } \
	| $(GO) run ./internal/testreport

stores:
	@scripts/stores $(STORES)

images:
	@if $(DOCKER); then scripts/images; else echo "images: no Docker engine here: stores are tested as processes only"; fi

ci: format vet lint cross api release-check test

format:
	@out=$$($(TOOL) gofumpt -l .); test -z "$$out" || { echo "not gofumpt'ed:"; echo "$$out"; exit 1; }

vet:
	$(GO) vet ./...
	@$(GO) mod tidy -diff
	@cd internal/tools && $(GO) mod tidy -diff
	@for m in $(MODULES); do (cd $$m && $(GO) vet ./... && $(GO) mod tidy -diff) || exit 1; done

lint:
	$(TOOL) staticcheck ./...
	@for m in $(MODULES); do (cd $$m && $(GO) tool -modfile=$(CURDIR)/internal/tools/go.mod staticcheck ./...) || exit 1; done

cross:
	GOOS=darwin GOARCH=arm64 $(GO) vet -trimpath ./...
	GOOS=windows GOARCH=amd64 $(GO) vet -trimpath ./...
	@# An int has 32 bits here. Tests are not vetted: some have numbers above that.
	GOOS=linux GOARCH=386 $(GO) build -trimpath ./...
	GOOS=linux GOARCH=arm $(GO) build -trimpath ./...

api:
	@scripts/apicheck

release:
	scripts/release

release-check:
	@scripts/release-check

bench:
	$(GO) test -run "^$$" -bench . -benchmem . ./driver/... ./backends/... ./httpcoord ./grpccoord

bench-peers: stores
	cd bench && $(GO) run . $(BENCH) -out results/peers.json -docs ../docs

bench-http supplier-plots: export COORD_TEST_REQUIRE = $(REQUIRE)
bench-http: stores
	cd examples && COORD_HTTPLOAD_ROUNDS=5 $(GO) test -count=1 -timeout 30m -run TestMeasure ./httpload
	cd examples && $(GO) test ./httpload -run TestPage -update

supplier-plots: stores
	cd examples && COORD_SUPPLIER_PLOTS=1m $(GO) test -count=1 -timeout 30m -run TestPlots ./supplier
	cd examples && $(GO) test ./supplier -run TestPage -update

bench-scale: stores
	cd bench && $(GO) run . scale $(BENCH) -out results/scaling.json -docs ../docs

bench-availability: stores
	cd bench && $(GO) run . availability $(BENCH) -out results/availability.json -docs ../docs

soak: export COORD_TEST_REQUIRE = $(REQUIRE)
soak: stores
	COORD_SOAK_MUTANTS=1 $(GO) test -timeout 1h -count=1 -run TestMutantsUnderTheWholeSuite ./conformance
	$(GO) test -run TestMutantsPage ./conformance -update
	COORD_SOAK_PASSES=$(PASSES) COORD_SOAK_REPORT=$(CURDIR)/docs/soak/conformance.json $(GO) test -timeout 3h -count=1 -v -run TestSoak ./internal/soak
	COORD_STORM=$(SOAK) COORD_STORM_REPORTS=$(CURDIR)/docs/soak $(GO) test -timeout 2h -count=1 -v -run TestStorm ./internal/storm

reports: export COORD_TEST_REQUIRE = $(REQUIRE)
reports: stores
	rm -f docs/compatibility/*.json
	COORD_CONFORMANCE_REPORTS=$(CURDIR)/docs/compatibility $(GO) test -count=1 -p 1 -timeout 30m -run '^TestConformance' ./backends/...
	$(GO) run ./internal/compat
	$(GO) test ./conformance -run TestCasesDoc -update

fuzz:
	@scripts/fuzz $(FUZZTIME)

demo:
	$(GO) run ./cmd/coord demo

build:
	$(GO) build -trimpath -o bin/coord ./cmd/coord
