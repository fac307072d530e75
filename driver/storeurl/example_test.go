package storeurl_test

import (
	"fmt"
	"io"
	"net/url"
	"time"

	"github.com/coordgo/coord/driver/storeurl"
)

// An adapter reads the URL that its user gives: which parts there are, the parameters, and TLS.
func ExampleParse() {
	u, _ := url.Parse("kvs://app:secret@kv1,kv2:7000/orders?pool_size=20")
	var size int
	at, err := storeurl.Parse(u, storeurl.Spec{
		Scheme: "kv", TLSScheme: "kvs", DefaultPort: "7070", Many: true, User: true, Path: true,
		Params: map[string]storeurl.Param{"pool_size": storeurl.Int(&size, 1, 1000)},
	})
	fmt.Println(at.Hosts, at.User, at.Path, at.TLS != nil, size, err)
	// Output: [kv1:7070 kv2:7000] app orders true 20 <nil>
}

// What the store has no use for is refused, and no error shows a password.
func ExampleSpec() {
	u, _ := url.Parse("kv://app:secret@kv1/orders")
	_, err := storeurl.Parse(u, storeurl.Spec{Scheme: "kv", DefaultPort: "7070", Path: true})
	fmt.Println(err)
	// Output: invalid argument: store URL: kv takes no user
}

func ExampleDuration() {
	u, _ := url.Parse("kv://kv1?dial_timeout=2m")
	var timeout time.Duration
	_, err := storeurl.Parse(u, storeurl.Spec{
		Scheme: "kv", DefaultPort: "7070",
		Params: map[string]storeurl.Param{"dial_timeout": storeurl.Duration(&timeout, time.Millisecond, time.Minute)},
	})
	fmt.Println(err)
	// Output: invalid argument: parameter dial_timeout="2m": want a duration from 1ms to 1m0s
}

// An error from opening the store says first what may be wrong with its URL.
func ExampleURL_Explain() {
	u, _ := url.Parse("kv://kv1")
	at, _ := storeurl.Parse(u, storeurl.Spec{Scheme: "kv", TLSScheme: "kvs", DefaultPort: "7070"})
	fmt.Println(at.Explain(io.EOF))
	// Output: the server closed the connection: check the port; if it speaks TLS, use kvs://: EOF
}
