// Package envoy is Envoy's rate-limit service, envoy.service.ratelimit.v3.RateLimitService, on a store of coord. It
// reads the configuration of envoyproxy/ratelimit as it is, and by default counts as that service does. With
// counting: exact in a file, the limits of a request are one step, and a denied request costs nothing. docs/envoy.md is
// for those who move from there.
//
//		s, err := envoy.New(client, envoy.Options{})
//		...
//		ratelimitv3.RegisterRateLimitServiceServer(grpcServer, s)
//		mux.Handle("POST /json", s)
//		go s.Watch(ctx, 5*time.Second, report)
//
//	  - service.go: Service, its gRPC and its errors. json.go: the same by HTTP.
//	  - yaml.go, load.go: files. files.go, reload.go: where they are, and when they change.
//	  - match.go: from a descriptor to its rule. unit.go: windows. key.go: the names of counters.
//	  - decision.go: a request. answer.go: headers and metadata of its answer.
//	  - tally.go: counting: envoy. exact.go: counting: exact. lease.go: its permits that are taken in advance.
//	  - stats.go: what is measured.
package envoy
