// Package server gives the locks and limits of a store to programs in any language, by HTTP with JSON and by gRPC. The
// command coord serve is this package with a configuration file; a program can embed it:
//
//	client, err := config.Open(ctx, "coord.yaml")
//	...
//	s, err := server.New(ctx, client, server.Options{})
//	...
//	l, err := s.Listen(ctx)
//	...
//	g, err := s.ListenGRPC(ctx)
//	...
//	err = s.Serve(ctx, l, g)
//
// docs/serve.md is for those who call it. What a remote holder may believe is at the type hold.
//
//   - server.go: Server, its paths and its end. run.go: listening and draining.
//   - gate.go: what each request passes, by HTTP or by gRPC. callers.go: who may do what. tokens.go: tokens that change
//     in their files, by internal/settle.
//   - handle.go: from a request to an operation and back. errors.go: errors.
//   - acquire.go, holds.go: locks of remote holders. locks.go: what an operator sees and breaks.
//   - stream.go: what lasts as long as its connection.
//   - limits.go, reserve.go: limits. envoy.go: those of Envoy, by package server/envoy.
//   - grpc.go: the calls of gRPC, their callers and bounds. grpclocks.go, grpclimits.go: from a message to an operation
//     and back. grpchold.go: held streams of gRPC. grpcerrors.go: errors. coordpb: messages and clients.
//   - page.go: the page for people at "/"; pageview.go, pagerows.go, pagetext.go: what it shows; pageact.go: what it
//     does; pagesessions.go: who has signed in; page/: its templates, style and script.
//   - pagesample.go, pagestore.go: what is asked of the store for all who look. pagedecisions.go: what limits decide.
//   - openapi.go: the description, made of the operations. metrics.go, trace.go: what is measured, and traced.
package server
