package server

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/net/netutil"

	"github.com/coordgo/coord/config"
)

// Listen opens the address of the configuration for HTTP.
func (s *Server) Listen(ctx context.Context) (net.Listener, error) {
	return s.listen(ctx, s.cfg.Listen)
}

// ListenGRPC opens the address of the configuration for gRPC; nil: it has none.
func (s *Server) ListenGRPC(ctx context.Context) (net.Listener, error) {
	if s.cfg.GRPCListen == "" {
		return nil, nil
	}
	return s.listen(ctx, s.cfg.GRPCListen)
}

func (s *Server) listen(ctx context.Context, address string) (net.Listener, error) {
	var lc net.ListenConfig
	path, isUnix := strings.CutPrefix(address, "unix:")
	switch {
	case isUnix && runtime.GOOS == "windows":
		return nil, fmt.Errorf("%s: unix: is not for Windows, where everybody could connect: want host:port", address)
	case !isUnix:
		lc.Control = bounded
		lc.SetMultipathTCP(false) // it has no such option
		return lc.Listen(ctx, "tcp", address)
	}
	// A socket that refuses was left by a process that was killed. One that is busy is somebody's.
	conn, err := new(net.Dialer).DialContext(ctx, "unix", path)
	switch info, serr := os.Lstat(path); {
	case err == nil:
		_ = conn.Close()
		return nil, fmt.Errorf("%s: another process listens there", path)
	case serr == nil && info.Mode()&os.ModeSocket != 0 && errors.Is(err, syscall.ECONNREFUSED):
		_ = os.Remove(path)
	}
	l, err := lc.Listen(ctx, "unix", path)
	if err == nil && s.callers.everybody != nil { // who connects shows no token
		if err = os.Chmod(path, 0o600); err != nil {
			_ = l.Close()
		}
	}
	return l, err
}

// Serve answers on l by HTTP, and on each of forGRPC by gRPC, until ctx ends, and then drains: it answers on while remote
// holders may still believe in what they hold, for as long as the configuration says. An error that matches
// [ErrUndrained] tells that there were some in the end. The listeners are closed then. It is called once. One of forGRPC
// may be nil, as ListenGRPC gives it.
func (s *Server) Serve(ctx context.Context, l net.Listener, forGRPC ...net.Listener) error {
	l = netutil.LimitListener(l, s.cfg.MaxConnections)
	h := &http.Server{
		Handler: s, TLSConfig: s.secure, ErrorLog: slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
		ReadHeaderTimeout: ioTime, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 16 << 10,
	}
	defer beside(ctx, s.watchTokens)()
	if s.envoy != nil {
		defer beside(ctx, s.watchEnvoy)()
	}
	served := make(chan error, 1+len(forGRPC))
	for _, l := range forGRPC {
		if l == nil {
			continue
		}
		go func() { served <- s.grpc.Serve(netutil.LimitListener(l, s.cfg.MaxConnections)) }()
	}
	go func() {
		if s.secure != nil {
			served <- h.ServeTLS(l, "", "")
		} else {
			served <- h.Serve(l)
		}
	}()
	var failed error
	select {
	case failed = <-served: // holders believe on all the same
	case <-ctx.Done():
	}
	draining, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.cfg.Drain)
	defer cancel()
	left := s.Drain(draining)
	if left != nil {
		left = fmt.Errorf("%w: %w", ErrUndrained, left)
	}
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), callTime)
	defer cancel()
	if h.Shutdown(closing) != nil {
		_ = h.Close() // of callers who send or read nothing
	}
	defer context.AfterFunc(closing, s.grpc.Stop)()
	s.grpc.GracefulStop()
	return errors.Join(failed, left)
}

// beside runs watch in a goroutine until ctx ends, or end is called, which waits for it.
func beside(ctx context.Context, watch func(context.Context)) (end func()) {
	ctx, cancel := context.WithCancel(ctx)
	var watching sync.WaitGroup
	watching.Go(func() { watch(ctx) })
	return func() { cancel(); watching.Wait() }
}

// ErrUndrained tells that remote holders may still believe in what they hold: do not close the client.
var ErrUndrained = errors.New("the server ended before the holds of its callers")

// pair is a certificate with its key, of two files. While they are being replaced they may not fit each other.
type pair struct {
	cert, key string
	log       *slog.Logger
	good      atomic.Pointer[tls.Certificate] // the last ones that fitted
	bad       atomic.Bool                     // those of now do not, which was logged
}

func (p *pair) read() error {
	c, err := tls.LoadX509KeyPair(p.cert, p.key)
	if err == nil {
		p.good.Store(&c)
	}
	return err
}

// get is for tls.Config.
func (p *pair) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	err := p.read()
	if was := p.bad.Swap(err != nil); err != nil && !was {
		p.log.Error("the certificate was not read again: the one before stays in force", "error", err)
	}
	return p.good.Load(), nil
}

// newTLS is nil where the server speaks plain HTTP.
func newTLS(cfg config.Serve, log *slog.Logger) (*tls.Config, error) {
	if cfg.Certificate == "" {
		return nil, nil
	}
	// The files are read again for each connection, so that a new certificate needs no restart.
	p := &pair{cert: cfg.Certificate, key: cfg.Key, log: log}
	if err := p.read(); err != nil {
		return nil, err
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"}, GetCertificate: p.get}
	if cfg.ClientCA == "" {
		return c, nil
	}
	text, err := os.ReadFile(cfg.ClientCA)
	if err != nil {
		return nil, err
	}
	c.ClientCAs, c.ClientAuth = x509.NewCertPool(), tls.VerifyClientCertIfGiven
	if !c.ClientCAs.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("%s: no certificate", cfg.ClientCA)
	}
	return c, nil
}
