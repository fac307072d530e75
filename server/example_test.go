package server_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/coordgo/coord"
	_ "github.com/coordgo/coord/backends/memory"
	"github.com/coordgo/coord/config"
	"github.com/coordgo/coord/server"
)

// A program serves locks beside its own paths.
func ExampleServer() {
	ctx := context.Background()
	cfg, err := config.Parse("coord.yaml", []byte("url: memory://"))
	if err != nil {
		fmt.Println(err)
		return
	}
	client, err := cfg.Open(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	s, err := server.New(ctx, client, server.Options{Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		fmt.Println(err)
		return
	}
	mux := http.NewServeMux()
	mux.Handle("/v1/", s)

	r := httptest.NewRequest("POST", "http://localhost/v1/locks/acquire", strings.NewReader(`{"key":"backup","ttl_ms":100}`))
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	mux.ServeHTTP(w, r)
	fmt.Println(w.Code)

	// In the end: first wait for remote holders, then close.
	fmt.Println(s.Drain(ctx))
	fmt.Println(client.Close())
	// Output:
	// 200
	// <nil>
	// <nil>
}

func ExampleOptions() {
	options := server.Options{Log: slog.New(slog.DiscardHandler), Metrics: http.NotFoundHandler()}
	fmt.Println(options.Meter == nil)
	// Output: true
}

// The page at "/" shows how many requests are denied if the client tells the server of its decisions.
func ExampleDecisions() {
	ctx := context.Background()
	cfg, err := config.Parse("coord.yaml", []byte("{url: memory://, limits: {mail: 1/1h}}"))
	if err != nil {
		fmt.Println(err)
		return
	}
	decisions := new(server.Decisions)
	client, err := cfg.Open(ctx, coord.WithObserver(decisions.Observer()))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()
	s, err := server.New(ctx, client, server.Options{Log: slog.New(slog.DiscardHandler), Decisions: decisions})
	if err != nil {
		fmt.Println(err)
		return
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, httptest.NewRequest("GET", "http://localhost/", nil))
	fmt.Println(w.Code, strings.Contains(w.Body.String(), "1 of 1"))
	// Output: 200 true
}
