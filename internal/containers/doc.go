// Package containers gives a test a real store in a container, through testcontainers-go, and
// runs a selection of the conformance suite over each of them. The whole suite runs beside each backend on
// a child process (package testserver); this module is apart, so that nobody who imports coord
// has Docker's modules in their module graph.
//
// The image of a store is, in this order, what COORD_TEST_REDIS_IMAGE (…_ETCD, _ZOOKEEPER,
// _MEMCACHED) names; coord-test/redis:local, which scripts/images makes of what is installed on
// this machine, if the engine has it; or the store's official image, at a fixed version.
//
// Without a Docker engine tests skip, and say why; with COORD_TEST_REQUIRE_CONTAINERS=1 they fail.
// The engine is on this machine: containers are reached on 127.0.0.1, at a fixed port each, so that
// one that is killed and started again has the same address. Each is labelled, and removed when
// its test ends. Those of a run that was killed are removed by Ryuk, or, where its image is not to
// be had, by the next run.
package containers
