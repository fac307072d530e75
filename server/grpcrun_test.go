package server

import (
	"context"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/coordgo/coord/server/coordpb"
)

// serveGRPC runs a server on the addresses of its configuration, and gives that for gRPC and what ends it.
func (k *kit) serveGRPC() (addr net.Addr, end func() error) {
	k.t.Helper()
	ctx, cancel := context.WithCancel(k.t.Context())
	l := done(k.Listen(ctx))(k.t)
	g := done(k.ListenGRPC(ctx))(k.t)
	served := make(chan error, 1)
	go func() { served <- k.Serve(ctx, l, g) }()
	return g.Addr(), func() error { cancel(); return <-served }
}

// Callers show a certificate of the right authority, or a token, by gRPC as by HTTP.
func TestGRPCServeTLS(t *testing.T) {
	ours, theirs := newAuthority(t), newAuthority(t)
	ours.sign("server", &x509.Certificate{IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}})
	for _, a := range []*authority{ours, theirs} {
		a.sign("web.example", &x509.Certificate{ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	}
	k := start(t, fmt.Sprintf(`
serve:
  listen: '127.0.0.1:0'
  grpc_listen: '127.0.0.1:0'
  tls: {certificate: %q, key: %q, client_ca: %q}
  callers:
    - {name: web, certificate: web.example, allow: [{prefix: web, rights: [lock]}]}
    - {name: ops, token: "0123456789abcdef", allow: [{rights: [lock]}]}
`, ours.path("server.crt"), ours.path("server.key"), ours.path("authority.crt")))
	addr, end := k.serveGRPC()
	dial := func(h *http.Client, token string) *client {
		c := h.Transport.(*http.Transport).TLSClientConfig.Clone()
		c.RootCAs.AddCert(ours.cert)
		return newClient(t, addr.String(), grpc.WithTransportCredentials(credentials.NewTLS(c)), showing(token))
	}
	ctx, web := t.Context(), dial(ours.client("web.example"), "")
	a := done(web.Acquire(ctx, &coordpb.AcquireRequest{Key: "web"}))(t)
	_, err := web.Acquire(ctx, &coordpb.AcquireRequest{Key: "job"})
	wantCode(t, err, codes.PermissionDenied, "forbidden")
	_, err = dial(ours.client(""), "").Acquire(ctx, &coordpb.AcquireRequest{Key: "web"})
	wantCode(t, err, codes.Unauthenticated, "unauthenticated")
	ops := dial(ours.client(""), "0123456789abcdef")
	b := done(ops.Acquire(ctx, &coordpb.AcquireRequest{Key: "job"}))(t)
	_, err = dial(theirs.client("web.example"), "").Acquire(ctx, &coordpb.AcquireRequest{Key: "web2"})
	if status.Code(err) != codes.Unavailable {
		t.Errorf("a certificate of another authority: %v", err)
	}
	done(web.Release(ctx, &coordpb.ReleaseRequest{Id: a.GetId()}))(t)
	done(ops.Release(ctx, &coordpb.ReleaseRequest{Id: b.GetId()}))(t)
	if err := end(); err != nil {
		t.Error(err)
	}
}

// Both addresses may be sockets, which only the user of the server may open where it has no callers.
func TestGRPCServeUnix(t *testing.T) {
	dir := t.TempDir()
	k := start(t, fmt.Sprintf("serve: {listen: 'unix:%s/h', grpc_listen: 'unix:%s/g'}", dir, dir))
	_, end := k.serveGRPC()
	c := newClient(t, "unix:"+filepath.Join(dir, "g"), grpc.WithTransportCredentials(insecure.NewCredentials()))
	done(c.List(t.Context(), &coordpb.ListRequest{}))(t)
	if info, err := os.Stat(filepath.Join(dir, "g")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("anybody may connect without a token: %v %v", info, err)
	}
	if err := end(); err != nil {
		t.Error(err)
	}
}

// Without an address there is no gRPC, and HTTP is served.
func TestGRPCOff(t *testing.T) {
	k := start(t, "serve: {listen: '127.0.0.1:0'}")
	l, g := done(k.Listen(t.Context()))(t), done(k.ListenGRPC(t.Context()))(t)
	if g != nil {
		t.Errorf("gRPC listens on %v", g.Addr())
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := k.Serve(ctx, l, g); err != nil {
		t.Error(err)
	}
}
