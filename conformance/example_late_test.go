package conformance_test

import (
	"fmt"
	"net"

	"github.com/coordgo/coord/conformance"
)

// A LateLink stalls a client between its requests: here the store gets one more.
func ExampleLateLink() {
	store, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer store.Close()
	go count(store)
	proxy, err := conformance.NewProxy(store.Addr().String())
	if err != nil {
		fmt.Println(err)
		return
	}
	defer proxy.Close()

	var link conformance.LateLink = proxy
	link.StallAfter(1)
	fmt.Println("the first:", ask(proxy.Addr()))
	fmt.Println("the second:", ask(proxy.Addr()))
	link.Heal()

	// Output:
	// the first: 1
	// the second: no answer
}
