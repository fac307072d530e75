// Command httpapi is a service with locks and limits for its clients, and with orders that it guards itself. Everything about
// the store is in coord.yaml:
//
//	go run ./httpapi
//	go run ./httpapi --config coord.yaml --listen :8080
//	go run ./httpapi --try --url redis://localhost:6379
//
// It ends when it is interrupted: requests are served to their end, and locks are given back. With --try it serves one scenario
// of requests, its own, and ends.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	_ "github.com/coordgo/coord/backends/all"
	"github.com/coordgo/coord/config"
)

var (
	file        = flag.String("config", "httpapi/coord.yaml", "the store, the limits and the rules")
	store       = flag.String("url", "", "the store, instead of that of the file")
	listen      = flag.String("listen", "localhost:8080", "where to serve")
	try         = flag.Bool("try", false, "serve a scenario of requests, and end")
	withoutLock = flag.Bool("without-lock", false, "change orders without a lock, to see what it is for")
)

func main() {
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		log.Fatal(err)
	}
}

// run opens the store and serves until ctx ends.
func run(ctx context.Context) (err error) {
	cfg, err := config.Load(*file)
	if err != nil {
		return err
	}
	if *store != "" {
		if err := cfg.SetURL("--url", *store); err != nil {
			return err
		}
	}
	client, err := cfg.Open(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, client.Close()) }() // gives back what clients have locked
	l, err := net.Listen("tcp", *listen)
	if err != nil {
		return err
	}
	base := "http://" + l.Addr().String()
	fmt.Printf("%s/ on %s\n", base, client.Info().Name)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if *try {
		go func() { cancel(show(ctx, base)) }()
	}
	if err := serve(ctx, l, newService(client).handler()); err != nil {
		return err
	}
	if err := context.Cause(ctx); *try && !errors.Is(err, errKept) {
		return err
	}
	return nil
}

// serve serves until ctx ends, and the requests that are under way to their end.
func serve(ctx context.Context, l net.Listener, handler http.Handler) error {
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 5 * time.Second}
	ended := make(chan error, 1)
	defer context.AfterFunc(ctx, func() {
		patience, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
		ended <- server.Shutdown(patience)
	})()
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return <-ended
}

// errKept ends a scenario that went as it should.
var errKept = errors.New("all as it should be")

// show plays the scenario and says how it went.
func show(ctx context.Context, base string) error {
	client := &http.Client{Timeout: 30 * time.Second}
	defer client.CloseIdleConnections()
	s := scenario{base: base, client: client, say: func(line string) { fmt.Println(line) }}
	if err := s.play(ctx); err != nil {
		return fmt.Errorf("BROKEN: %w", err)
	}
	return errKept
}
