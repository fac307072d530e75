package conformance_test

import (
	"bufio"
	"fmt"
	"net"
	"sync/atomic"
	"time"

	"github.com/coordgo/coord/conformance"
)

// A Proxy breaks the way to any store that speaks over TCP: here to one that counts lines.
func ExampleProxy() {
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

	fmt.Println("as it is:", ask(proxy.Addr()))
	proxy.DropReply() // the store counts, and nobody learns of it
	fmt.Println("reply dropped:", ask(proxy.Addr()))
	proxy.StallRequests()
	fmt.Println("requests stalled:", ask(proxy.Addr()))
	proxy.Heal()
	proxy.Cut()
	fmt.Println("cut:", ask(proxy.Addr()))
	proxy.Heal()
	fmt.Println("healed:", ask(proxy.Addr()) != "no answer")

	// Output:
	// as it is: 1
	// reply dropped: no answer
	// requests stalled: no answer
	// cut: no answer
	// healed: true
}

// count answers each line with how many there have been.
func count(store net.Listener) {
	var n atomic.Int64
	for {
		conn, err := store.Accept()
		if err != nil {
			return
		}
		go func() {
			defer conn.Close()
			for in := bufio.NewScanner(conn); in.Scan(); {
				_, _ = fmt.Fprintln(conn, n.Add(1)) // the connection may be broken: that is the subject
			}
		}()
	}
}

func ask(addr string) string {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return "no answer"
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(300 * time.Millisecond)); err != nil {
		return err.Error()
	}
	_, _ = fmt.Fprintln(conn, "hello") // that it fails shows in the answer
	answer := bufio.NewScanner(conn)
	if !answer.Scan() {
		return "no answer"
	}
	return answer.Text()
}
