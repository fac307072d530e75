package main

import (
	"context"
	"net"
	"net/http"
	"time"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/httpcoord"
	"github.com/coordgo/coord/rules"
)

// bare is what stands behind the limits.
var bare = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain")
	_, _ = w.Write([]byte("hello\n")) // the client has gone if it fails
})

// behind puts limits before the bare handler.
func behind(client *coord.Client, limits ...rules.Limit) (http.Handler, error) {
	chain, err := rules.New(rules.Rule{Name: "addresses", Subject: rules.IP(), Limits: limits})
	if err != nil {
		return nil, err
	}
	return httpcoord.Limits{Limiter: client, Rules: chain}.Wrap(bare), nil
}

// server serves a handler on a free port of the loopback address.
type server struct {
	http.Server
	url   string
	ended chan error
}

func serve(handler http.Handler) (*server, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &server{url: "http://" + l.Addr().String(), ended: make(chan error, 1)}
	s.Handler, s.ReadHeaderTimeout = handler, 10*time.Second
	go func() { s.ended <- s.Serve(l) }()
	return s, nil
}

// end waits for the requests that are under way.
func (s *server) end() error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	err := s.Shutdown(ctx)
	<-s.ended
	return err
}
