package zookeeper

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/driver/doctor"
)

// clockSamples is how often the leader's time is asked for at the start. The best
// answer counts.
const clockSamples = 3

// probe waits for a session, sees what server there is and makes the root.
func (b *backend) probe(ctx context.Context) error {
	if _, err := b.await(ctx); err != nil {
		return err
	}
	server, mode := b.about(ctx)
	b.alone.Store(mode == standalone)
	if err := b.insist(ctx, func() error { return b.prepare(ctx) }); err != nil {
		return err
	}
	b.info = driver.Info{
		Name: "zookeeper", Server: server,
		MinTTL: b.lease(), MaxTTL: maxTTL, MaxKey: maxKey, Claims: Claims,
	}
	return nil
}

// insist repeats what can be repeated while connections break.
func (b *backend) insist(ctx context.Context, fn func() error) error {
	for {
		err := fn()
		if answered(err) || driver.Definite(err) || errors.Is(err, zk.ErrAuthFailed) || b.calls.Pause(ctx, connectPoll) != nil {
			return err
		}
	}
}

// prepare makes the nodes that everything is under, and learns the leader's time.
func (b *backend) prepare(ctx context.Context) error {
	err := b.run(ctx, func() error {
		for _, dir := range []string{"/locks", "/limits", "/shared"} {
			if err := b.makePath(b.root + dir); err != nil {
				return fmt.Errorf("make %s: %w", b.root+dir, err)
			}
		}
		data, _, err := b.conn.Get(b.root + "/limits")
		if err == nil && len(data) > 0 {
			err = fmt.Errorf("%w: node %s/limits has data", driver.ErrCorrupt, b.root)
		}
		return err
	}, nil)
	for range clockSamples {
		if err == nil {
			err = b.askTime(ctx)
		}
	}
	return err
}

// standalone is the mode of a server that is not one of several.
const standalone = "standalone"

// about asks the server that we are connected to what it is, such as "ZooKeeper 3.8.4". It may not want to tell, or
// there may be a proxy before it: then it is taken to be one of several.
func (b *backend) about(ctx context.Context) (server, mode string) {
	about := doctor.Parse(b.ask(ctx, "srvr"), ": ")
	version, _, _ := strings.Cut(about["Zookeeper version"], ",")
	if version, _, _ = strings.Cut(version, "-"); version != "" {
		server = "ZooKeeper " + version
	}
	return server, about["Mode"]
}

// askWithin bounds a question that is answered at once, if at all.
const askWithin = time.Second

// ask sends one of the server's four letter words, on a connection of its own. It gives "" if the
// server does not answer.
func (b *backend) ask(ctx context.Context, word string) string {
	ctx, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	address := b.conn.Server()
	var conn net.Conn
	var err error
	if b.wire != nil && b.wire.tls != nil {
		conn, err = (&tls.Dialer{Config: b.wire.configFor(address)}).DialContext(ctx, "tcp", address)
	} else {
		conn, err = (&net.Dialer{}).DialContext(ctx, "tcp", address)
	}
	if err != nil {
		return ""
	}
	defer conn.Close()
	deadline, _ := ctx.Deadline()
	if err := conn.SetDeadline(deadline); err != nil {
		return ""
	}
	if _, err := io.WriteString(conn, word); err != nil {
		return ""
	}
	text, err := io.ReadAll(io.LimitReader(conn, 64<<10))
	if err != nil {
		return ""
	}
	return string(text)
}
