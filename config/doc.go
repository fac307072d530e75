// Package config makes a Client from a file, so that operators choose the store
// and the limits and the program does not change.
//
//	url: redis://localhost:6379/0
//	prefix: "shop/"
//	require: [per-hold-ttl, server-clock]
//	failure_policy: closed
//	lock: {ttl: 30s, wait: 10s}
//	limits:
//	  supplier: 2000/1m
//	  mail: {rate: 100, per: 1h, burst: 20}
//
// The program imports the backends that it allows, and opens the file:
//
//	client, err := config.Open(ctx, "coord.yaml")
//	...
//	supplier, err := client.Limit("supplier")
//
// # Keys
//
// Every key is optional. An unknown or repeated key, a value of the wrong type
// or out of range, and two values that contradict each other are refused with
// file, line and what is allowed; see [Error].
//
//   - url: the store. The environment variable COORD_URL replaces it, so that
//     a secret need not be in the file.
//   - prefix: put before every key, verbatim; at most 256 bytes.
//   - require: claims that the store must make, by their names in package
//     driver; Open fails on a store that does not.
//   - failure_policy: what limits answer when the store is unavailable: closed
//     (the default) returns the error, open admits.
//   - lock: what locks use unless the call says otherwise: ttl, wait, max_hold
//     and min_hold, each a duration such as 30s.
//   - limits: limits by name. A limit is a string such as "2000/1m",
//     "2000/1m burst=200" or "2000/1m fixed-window", or a mapping of rate, per,
//     burst and algorithm.
//
// Anchors, aliases and several documents in one file are refused: what a line
// says is what it means.
package config
