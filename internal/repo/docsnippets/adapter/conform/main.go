// Command conform runs the conformance suite on a kv server: conform kv://host:port.
package main

import (
	"github.com/coordgo/coord/conformance"
	"github.com/coordgo/coord/internal/repo/docsnippets/adapter"
)

func main() { conformance.Main(adapter.Open, adapter.Claims...) }
