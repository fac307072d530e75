package etcd

import (
	"context"
	"errors"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// login asks for tokens over a connection of its own, without a token.
//
// The client library sends its token with every request, the one for a new token among them.
// A server that does not know it any more refuses that request for it, upon which the library
// asks for a new token, and so on without end: an old token would never be replaced.
type login struct {
	clientv3.Auth
	cfg clientv3.Config
}

// withLogin makes client, which nobody uses yet, ask for tokens by login.
func withLogin(client *clientv3.Client, cfg clientv3.Config) {
	if cfg.Username == "" {
		return
	}
	cfg.Username, cfg.Password = "", ""
	client.Auth = login{client.Auth, cfg}
}

// Authenticate implements clientv3.Auth.
func (l login) Authenticate(ctx context.Context, name, password string) (reply *clientv3.AuthenticateResponse, err error) {
	cfg := l.cfg
	cfg.Context = ctx
	client, err := clientv3.New(cfg)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, ignoreEnd(ctx, client.Close())) }()
	return client.Authenticate(ctx, name, password)
}

// ignoreEnd is err, unless it says only that ctx has ended.
func ignoreEnd(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}
