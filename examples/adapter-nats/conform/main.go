// Command conform runs coord's conformance suite on a bucket:
//
//	go run ./conform nats://localhost:4222/coord?replicas=1
package main

import (
	"github.com/coordgo/coord/conformance"
	natskv "github.com/coordgo/coord/examples/adapter-nats"
)

func main() { conformance.Main(natskv.Open, natskv.Claims...) }
