package postgres

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/internal/testserver"
)

// contains reports whether the text of an error has words in it.
func contains(err error, words string) bool { return strings.Contains(fmt.Sprint(err), words) }

// openURL opens a store.
func openURL(t *testing.T, text string) (*backend, error) {
	t.Helper()
	u := must[*url.URL](t)(url.Parse(text))
	var b driver.Backend
	err := answered(func() (err error) {
		b, err = Open(t.Context(), u)
		return err
	})
	if err != nil {
		return nil, err
	}
	return b.(*backend), nil
}

// secured is a server that wants TLS, a client's certificate and a password.
func secured(t *testing.T) (srv *testserver.Server, at func(password, host, query string) string) {
	t.Helper()
	// On 127.0.0.2 it has no certificate for its name.
	srv = testserver.Postgres(t, testserver.WithTLS(), testserver.WithPassword("s3cret"), testserver.WithFlags("-h", "127.0.0.1,127.0.0.2"))
	return srv, func(password, host, query string) string {
		_, port, _ := strings.Cut(srv.Addr, ":")
		return fmt.Sprintf("postgres://%s:%s@%s:%s/postgres?timeout=5s&%s", testserver.PostgresUser, password, host, port, query)
	}
}

func TestOpenTLS(t *testing.T) {
	t.Parallel()
	srv, at := secured(t)
	root := "&sslrootcert=" + srv.TLS.CAFile
	keys := "&sslcert=" + srv.TLS.CertFile + "&sslkey=" + srv.TLS.KeyFile
	for name, good := range map[string]string{
		"by its address": at("s3cret", "127.0.0.1", "sslmode=verify-full"+root+keys),
		"by its name":    at("s3cret", "localhost", "sslmode=verify-full"+root+keys),
		"of any name":    at("s3cret", "127.0.0.2", "sslmode=verify-ca"+root+keys),
		"of any at all":  at("s3cret", "127.0.0.2", "sslmode=require"+keys),
		"preferred":      at("s3cret", "127.0.0.2", keys),
	} {
		b, err := openURL(t, good)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		r := request("a", time.Hour)
		err = answered(func() error { _, err := b.TryLock(t.Context(), "k", r); return err })
		if err := errors.Join(err, b.Unlock(t.Context(), "k", r.ID), b.Close()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	as := func(user *url.Userinfo) string {
		u := must[*url.URL](t)(url.Parse(at("", "127.0.0.1", "sslmode=verify-full"+root+keys)))
		u.User = user
		return u.String()
	}
	for name, bad := range map[string]struct{ url, want string }{
		"another name":    {at("s3cret", "127.0.0.2", "sslmode=verify-full"+root+keys), "for another name: use that, or sslmode=verify-ca"},
		"another CA":      {at("s3cret", "127.0.0.1", "sslmode=verify-full"+keys), "unknown authority: give sslrootcert"},
		"no certificate":  {at("s3cret", "127.0.0.1", "sslmode=verify-full"+root), "pg_hba.conf"},
		"no TLS":          {at("s3cret", "127.0.0.1", "sslmode=disable"), "pg_hba.conf"},
		"no such file":    {at("s3cret", "127.0.0.1", "sslmode=verify-full&sslrootcert=/nowhere/ca.pem"), "/nowhere/ca.pem"},
		"wrong password":  {at("wr0ng", "127.0.0.1", "sslmode=verify-full"+root+keys), "wrong user or password"},
		"wrong, in TLS":   {at("wr0ng", "127.0.0.1", keys), "wrong user or password"},
		"no password":     {as(url.User(testserver.PostgresUser)), "wrong user or password"},
		"no such user":    {as(url.UserPassword("nobody", "wr0ng")), "wrong user or password"},
		"no such network": {at("s3cret", "127.0.0.3", "sslmode=verify-full"+root+keys), "nothing listens there"},
	} {
		b, err := openURL(t, bad.url)
		if err == nil {
			t.Errorf("%s: no error", name)
			_ = b.Close()
			continue
		}
		definite := errors.Is(err, driver.ErrNotSent) || errors.Is(err, driver.ErrInvalid)
		if !definite || !contains(err, bad.want) || contains(err, "s3cret") || contains(err, "wr0ng") {
			t.Errorf("%s: %v, want an error that says %q, and no password", name, err, bad.want)
		}
	}
}

// The server ends idle connections in TLS, too, and none of them is used.
func TestRestartTLS(t *testing.T) {
	t.Parallel()
	srv, at := secured(t)
	b := open(t, at("s3cret", "localhost", "sslmode=verify-full&sslrootcert="+srv.TLS.CAFile+"&sslcert="+srv.TLS.CertFile+"&sslkey="+srv.TLS.KeyFile))
	r := request("a", time.Hour)
	before := mustTry(t, b, "k", r)
	srv.Restart()
	for range 3 {
		if g, err := b.Renew(t.Context(), "k", r); err != nil || g.Token != before.Token {
			t.Errorf("Renew after a restart: token %d, %v, want %d", g.Token, err, before.Token)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := b.TryLock(ctx, "k", r); !errors.Is(err, driver.ErrNotSent) {
		t.Errorf("TryLock under a ctx that has ended: %v, want ErrNotSent", err)
	}
}

// An operator changes the password. Sessions that are there go on, and new ones are told.
func TestPasswordChanges(t *testing.T) {
	t.Parallel()
	srv := testserver.Postgres(t, testserver.WithPassword("s3cret"))
	at := fmt.Sprintf("postgres://%s:s3cret@%s/postgres?timeout=5s", testserver.PostgresUser, srv.Addr)
	b := open(t, at)
	r := request("a", time.Hour)
	mustTry(t, b, "k", r)
	if _, err := b.pool.Exec(t.Context(), "ALTER ROLE postgres PASSWORD 'n3w'"); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Renew(t.Context(), "k", r); err != nil {
		t.Errorf("Renew over a session that is there: %v", err)
	}
	srv.Restart()
	if _, err := b.Renew(t.Context(), "k", r); !errors.Is(err, driver.ErrNotSent) || !contains(err, "wrong user or password") {
		t.Errorf("Renew over a new session: %v, want ErrNotSent that says so", err)
	}
	again := open(t, strings.Replace(at, "s3cret", "n3w", 1))
	if _, err := again.Renew(t.Context(), "k", r); err != nil {
		t.Errorf("Renew with the new password: %v", err)
	}
}
