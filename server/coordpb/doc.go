// Package coordpb is coord serve by gRPC: the clients, the messages and the services of coord.proto. docs/serve.md tells
// how to use them.
//
// All but this file is made of coord.proto by "make generate".
package coordpb
