package server

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// serve runs a server, and gives its address and what ends it. The error is that of Serve.
func (k *kit) serve() (addr net.Addr, end func() error) {
	k.t.Helper()
	ctx, cancel := context.WithCancel(k.t.Context())
	l, err := k.Listen(ctx)
	if err != nil {
		k.t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- k.Serve(ctx, l) }()
	end = func() error { cancel(); return <-served }
	return l.Addr(), end
}

// ask makes a request over the network.
func ask(t *testing.T, c *http.Client, url, body string, edit ...func(*http.Request)) answer {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	for _, e := range edit {
		e(r)
	}
	got, err := c.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer got.Body.Close()
	a := answer{status: got.StatusCode, header: got.Header}
	if err := json.NewDecoder(got.Body).Decode(&a.body); err != nil {
		t.Fatal(err)
	}
	return a
}

// A server that ends answers on until its remote holders have released.
func TestServeDrains(t *testing.T) {
	k := start(t, "serve: {listen: '127.0.0.1:0'}")
	addr, end := k.serve()
	c := &http.Client{Transport: new(http.Transport)}
	defer c.CloseIdleConnections()
	url := "http://" + addr.String()
	a := ask(t, c, url+acquirePath, `{"key":"job"}`).ok(t)
	ended := make(chan error)
	go func() { ended <- end() }()
	<-k.ending.Done()
	if r := ask(t, c, url+renewPath, id(a)).ok(t); r.body["draining"] != true {
		t.Errorf("a renewal: %v", r.body)
	}
	ask(t, c, url+acquirePath, `{"key":"other"}`).want(t, http.StatusServiceUnavailable, "closed")
	ask(t, c, url+releasePath, id(a)).ok(t)
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// A server that has not the time to drain says so.
func TestServeUndrained(t *testing.T) {
	k := start(t, "serve: {listen: '127.0.0.1:0', drain: 1ms}")
	addr, end := k.serve()
	c := &http.Client{Transport: new(http.Transport)}
	defer c.CloseIdleConnections()
	ask(t, c, "http://"+addr.String()+acquirePath, `{"key":"job"}`).ok(t)
	if err := end(); !errors.Is(err, ErrUndrained) {
		t.Errorf("Serve: %v", err)
	}
}

// Holders believe on when the listener fails.
func TestServeFails(t *testing.T) {
	k := start(t, "serve: {listen: '127.0.0.1:0', drain: 1ms}")
	l, err := k.Listen(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- k.Serve(t.Context(), l) }()
	c := &http.Client{Transport: new(http.Transport)}
	defer c.CloseIdleConnections()
	ask(t, c, "http://"+l.Addr().String()+acquirePath, `{"key":"job"}`).ok(t)
	_ = l.Close()
	if err := <-served; !errors.Is(err, ErrUndrained) || !errors.Is(err, net.ErrClosed) {
		t.Errorf("Serve: %v", err)
	}
}

// A socket that a killed process has left is no obstacle, another process is.
func TestServeUnix(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	left, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	left.SetUnlinkOnClose(false)
	_ = left.Close()
	k := start(t, "serve: {listen: 'unix:"+path+"'}")
	_, end := k.serve()
	c := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", path)
	}}}
	defer c.CloseIdleConnections()
	a := ask(t, c, "http://localhost"+acquirePath, `{"key":"job"}`).ok(t)
	ask(t, c, "http://localhost"+releasePath, id(a)).ok(t)
	if _, err := k.Listen(t.Context()); err == nil {
		t.Error("two servers listen on one socket")
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("anybody may connect without a token: %v %v", info, err)
	}
	if err := end(); err != nil {
		t.Error(err)
	}
}

// authority signs certificates.
type authority struct {
	t    *testing.T
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	a := &authority{t: t, dir: t.TempDir()}
	a.cert, a.key = a.sign("authority", &x509.Certificate{IsCA: true, BasicConstraintsValid: true})
	return a
}

// sign makes a certificate for a name, and files NAME.crt and NAME.key.
func (a *authority) sign(name string, of *x509.Certificate) (*x509.Certificate, *ecdsa.PrivateKey) {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	of.SerialNumber, of.Subject = big.NewInt(time.Now().UnixNano()), pkix.Name{CommonName: name}
	of.NotBefore, of.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	parent, signer := of, key
	if a.cert != nil {
		parent, signer = a.cert, a.key
	}
	der, err := x509.CreateCertificate(rand.Reader, of, parent, key.Public(), signer)
	if err != nil {
		a.t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		a.t.Fatal(err)
	}
	for path, block := range map[string]*pem.Block{a.path(name + ".crt"): {Type: "CERTIFICATE", Bytes: der}, a.path(name + ".key"): {Type: "PRIVATE KEY", Bytes: secret}} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			a.t.Fatal(err)
		}
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		a.t.Fatal(err)
	}
	return cert, key
}

func (a *authority) path(name string) string { return filepath.Join(a.dir, name) }

// client is a program that trusts the authority, with a certificate if it is given a name.
func (a *authority) client(name string) *http.Client {
	a.t.Helper()
	c := &tls.Config{RootCAs: x509.NewCertPool()}
	c.RootCAs.AddCert(a.cert)
	if name != "" {
		pair, err := tls.LoadX509KeyPair(a.path(name+".crt"), a.path(name+".key"))
		if err != nil {
			a.t.Fatal(err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: c, ForceAttemptHTTP2: true}}
	a.t.Cleanup(client.CloseIdleConnections)
	return client
}

// A caller shows a certificate of the right authority, or a token.
func TestServeTLS(t *testing.T) {
	ours, theirs := newAuthority(t), newAuthority(t)
	ours.sign("server", &x509.Certificate{IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}})
	for _, a := range []*authority{ours, theirs} {
		a.sign("web.example", &x509.Certificate{ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	}
	ours.sign("other.example", &x509.Certificate{ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	k := start(t, fmt.Sprintf(`
serve:
  listen: '127.0.0.1:0'
  tls: {certificate: %q, key: %q, client_ca: %q}
  callers:
    - {name: web, certificate: web.example, allow: [{prefix: web, rights: [lock]}]}
    - {name: ops, token: "0123456789abcdef", allow: [{rights: [lock]}]}
`, ours.path("server.crt"), ours.path("server.key"), ours.path("authority.crt")))
	addr, end := k.serve()
	url := "https://" + addr.String() + acquirePath
	ask(t, ours.client("web.example"), url, `{"key":"web","ttl_ms":1}`).ok(t)
	ask(t, ours.client("web.example"), url, `{"key":"job"}`).want(t, http.StatusForbidden, "forbidden")
	ask(t, ours.client("other.example"), url, `{"key":"web2"}`).want(t, http.StatusUnauthorized, "unauthenticated")
	ask(t, ours.client(""), url, `{"key":"web2"}`).want(t, http.StatusUnauthorized, "unauthenticated")
	ask(t, ours.client(""), url, `{"key":"job","ttl_ms":1}`, bearer("0123456789abcdef")).ok(t)
	stranger := theirs.client("web.example")
	stranger.Transport.(*http.Transport).TLSClientConfig.RootCAs.AddCert(ours.cert)
	if got, err := stranger.Post(url, "application/json", bytes.NewReader([]byte(`{"key":"web2"}`))); err == nil {
		got.Body.Close()
		t.Errorf("a certificate of another authority: %d", got.StatusCode)
	}
	if err := end(); err != nil {
		t.Error(err)
	}
}

// A certificate is replaced file by file: connections get the last one that was whole.
func TestServeNewCertificate(t *testing.T) {
	a := newAuthority(t)
	sign := func() *x509.Certificate {
		cert, _ := a.sign("server", &x509.Certificate{IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}})
		return cert
	}
	first := sign()
	k := start(t, fmt.Sprintf("serve: {listen: '127.0.0.1:0', tls: {certificate: %q, key: %q}}", a.path("server.crt"), a.path("server.key")))
	addr, end := k.serve()
	shown := func() *x509.Certificate {
		c := a.client("").Transport.(*http.Transport).TLSClientConfig
		conn, err := tls.Dial("tcp", addr.String(), c)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		return conn.ConnectionState().PeerCertificates[0]
	}
	old, err := os.ReadFile(a.path("server.key"))
	if err != nil {
		t.Fatal(err)
	}
	second := sign()
	renewed, err := os.ReadFile(a.path("server.key"))
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		key  []byte
		want *x509.Certificate
	}{{old, first}, {nil, first}, {renewed, second}, {renewed[:40], second}} {
		if err := os.WriteFile(a.path("server.key"), step.key, 0o600); err != nil {
			t.Fatal(err)
		}
		if got := shown(); !got.Equal(step.want) {
			t.Errorf("with a key of %d bytes the server shows the certificate %v, want %v", len(step.key), got.SerialNumber, step.want.SerialNumber)
		}
	}
	if err := end(); err != nil {
		t.Error(err)
	}
}
