// Package grpccoord brings coord's limits to gRPC: interceptors for servers, by rules, and for
// clients, which keep to the limits of a service that is called.
//
//	limits := grpccoord.Limits{Limiter: client, Rules: chain}
//	server := grpc.NewServer(grpc.ChainUnaryInterceptor(limits.Unary()), grpc.ChainStreamInterceptor(limits.Stream()))
//
// A call that is denied ends with RESOURCE_EXHAUSTED and the details RetryInfo and
// QuotaFailure, and tells clients that retry by themselves when to do so. A stream counts once, when
// it begins.
//
// Interceptors that limit by user stand behind the one that authenticates. Locks need none:
// a handler calls [coord.Do].
package grpccoord
