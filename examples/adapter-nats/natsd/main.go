// Command natsd is a NATS server with JetStream, for the tests to kill, pause and start again:
//
//	natsd ADDRESS DIRECTORY
//
// It is a program of its own, and not the test binary started again, so that it is built without the race
// detector, under which this server is several times slower.
package main

import (
	"fmt"
	"net"
	"os"

	natsserver "github.com/nats-io/nats-server/v2/server"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: natsd ADDRESS DIRECTORY")
		os.Exit(2)
	}
	fmt.Fprintln(os.Stderr, "natsd:", serve(os.Args[1], os.Args[2]))
	os.Exit(1)
}

// serve runs until the process is killed.
func serve(addr, dir string) error {
	at, err := net.ResolveTCPAddr("tcp", addr)
	if err != nil {
		return err
	}
	s, err := natsserver.NewServer(&natsserver.Options{
		Host: at.IP.String(), Port: at.Port, JetStream: true, StoreDir: dir, NoSigs: true, NoLog: true,
	})
	if err != nil {
		return err
	}
	s.Start()
	s.WaitForShutdown()
	return fmt.Errorf("it has shut down")
}
