// Package config makes a Client from a file and the environment, so that operators choose the
// store, the limits and the rules, and the program does not change.
//
//	url: redis://app:${REDIS_PASSWORD}@redis.internal:6379/0
//	prefix: "shop/"
//	require: [per-hold-ttl, server-clock]
//	failure_policy: closed
//	lock: {ttl: 30s, wait: 10s}
//	limits:
//	  supplier: 2000/1m
//	  mail: {rate: 100, per: 1h, burst: 20}
//	rules:
//	  - {name: health, match: {path: /healthz}, final: true}
//	  - {name: orders, match: {methods: [POST], path: /orders/}, subject: user, limits: [5/1s, supplier]}
//
// The program imports the backends that it allows, and opens the file:
//
//	client, err := config.Open(ctx, "coord.yaml")
//	...
//	supplier, err := client.Limit("supplier")
//	...
//	decision, err := client.Rules().Allow(ctx, client, request)
//
// # Keys
//
// Every key is optional. An unknown or repeated key, a value of the wrong type
// or out of range, and two values that contradict each other are refused with
// file, line and what is allowed; see [Error].
//
//   - url: the store, or a mapping of locks and limits with one store each.
//   - quorum: three or more stores that make one for locks, see package backends/quorum; url is then the store of limits.
//   - prefix: put before every key, verbatim; at most 256 bytes.
//   - require: claims that the store must make, by their names in package
//     driver; Open fails on a store that does not.
//   - failure_policy: what limits answer when the store is unavailable: closed
//     (the default) returns the error, open admits.
//   - best_effort: true takes several limits in turn on a store that cannot take them at
//     once; see [coord.WithBestEffort].
//   - overrides: true applies what coord limit override has put into the store; see
//     [coord.WithOverrides].
//   - lock: what locks use unless the call says otherwise: ttl, wait, max_hold
//     and min_hold, each a duration such as 30s; fair and renew, true or false.
//   - serve: how package server gives the store to other languages: listen, grpc_listen, plaintext, tls, callers,
//     ad_hoc_limits, page, max_wait, drain, max_holds, max_requests and max_connections; envoy is for Envoy's rate
//     limits; see [Serve].
//   - limits: limits by name. A limit is a string such as "2000/1m",
//     "2000/1m burst=200" or "2000/1m fixed-window", or a mapping of rate, per,
//     burst and algorithm, and of lease: true, or a mapping of max, for and lessees, takes
//     permits in advance; see [coord.WithPermitLease].
//   - rules: what requests count against, in order: see package rules. A rule has a name; a
//     match of methods and path, or of rpc; a subject: everyone, ip, user, {header: NAME},
//     {api_key: HEADER}, {constant: NAME}, {func: NAME} or {ip: {ipv6_bits: 56}}, or a list of these; limits,
//     by name or in place; cost, the permits of a request; and final: true if no later rule is to apply. A limit by name is one account
//     that rules of the same subject share.
//
// Anchors, aliases and several documents in one file are refused: what a line
// says is what it means. [Schema] is a JSON schema of all this, for editors.
//
// # Environment
//
// A variable that is not empty replaces a key: COORD_URL (and quorum), COORD_PREFIX, COORD_REQUIRE (by
// commas), COORD_FAILURE_POLICY, COORD_BEST_EFFORT, COORD_OVERRIDES, COORD_LOCK_TTL and so on, and
// COORD_SERVE_LISTEN and so on. COORD_URL_LOCKS
// and COORD_URL_LIMITS replace the store of locks or of limits alone. Limits, rules and callers are
// the file's.
//
// # Secrets
//
// A URL need not contain its password: ${NAME} in its place is a variable of the
// environment, ${file:PATH} the content of a file without the newline at its end. They are
// looked up when the store is opened, and stand for a password alone: after the user, or in a
// parameter whose name says that it is secret. No error, no printed form and no log shows a
// password, wherever it is from.
//
// # Reload
//
// [Client.Reload] takes limits and rules from the file without a restart, and
// [Client.Watch] does it whenever the file changes. What has been counted stays counted.
package config
