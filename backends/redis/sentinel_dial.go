package redis

import (
	"context"
	"fmt"
	"net"
	"syscall"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// What stands for the address in the options of a client of a resolver, and of redis.NewFailoverClient.
const (
	sentinelAddr = "sentinels"
	failoverAddr = "FailoverClient"
)

// client makes the client that talks to the master, whichever server that is at the time.
func (r *resolver) client() *redis.Client {
	o := r.options.Simple()
	o.Addr, o.TLSConfig = sentinelAddr, nil // dial does both
	o.Dialer = quiet(func(ctx context.Context, network, _ string) (net.Conn, error) { return r.dial(ctx, network) })
	o.OnConnect = onlyMaster
	// The server must not tell the client to go elsewhere.
	o.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	client := redis.NewClient(o)
	client.AddHook(demotion{r})
	return client
}

// dial connects to the master. The connection ends when there is another.
func (r *resolver) dial(ctx context.Context, network string) (net.Conn, error) {
	m, err := r.master(ctx)
	if err != nil {
		return nil, &net.OpError{Op: "dial", Net: network, Err: err}
	}
	nc, err := r.connect(ctx, m.ctx, network, m.addr)
	if err != nil {
		r.suspect(m)
		return nil, err
	}
	return guard(m.ctx, nc, func() { r.suspect(m) }), nil
}

// onlyMaster refuses a server that is a replica. HELLO says what ROLE says, and needs no permission.
func onlyMaster(ctx context.Context, conn *redis.Conn) error {
	hello := redis.NewMapStringInterfaceCmd(ctx, "hello")
	if err := conn.Process(ctx, hello); err != nil {
		return err
	}
	if role := hello.Val()["role"]; role != "master" {
		err := &net.OpError{Op: "dial", Net: "tcp", Err: fmt.Errorf("the server that the sentinels elected is a %v", role)}
		return fmt.Errorf("redis: %w", err) // go-redis unwraps it once
	}
	return nil
}

// connect makes a connection, with TLS if there is to be TLS, until ctx or life ends.
func (r *resolver) connect(ctx, life context.Context, network, addr string) (net.Conn, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(life, cancel)()
	return dialTLS(ctx, r.options.Dialer, r.options, network, addr)
}

// guarded is a connection that is closed when a context ends.
type guarded struct {
	net.Conn
	release func() bool
	closed  func()
}

// guard closes nc when life ends. It calls closed when go-redis closes it sooner, which it does
// with a connection that has failed.
func guard(life context.Context, nc net.Conn, closed func()) net.Conn {
	g := &guarded{Conn: nc, closed: closed}
	g.release = context.AfterFunc(life, func() { _ = nc.Close() })
	if raw, ok := nc.(syscall.Conn); ok {
		return guardedRaw{g, raw}
	}
	return g
}

func (g *guarded) Close() error {
	if !g.release() {
		return nil // closed already
	}
	defer g.closed()
	return g.Conn.Close()
}

// guardedRaw lets go-redis see whether the server has closed the connection.
type guardedRaw struct {
	*guarded
	syscall.Conn
}

// demotion notices replies that say that the server has become a replica. go-redis closes the connection
// of such a reply, but of a pipeline it looks at the first reply only.
type demotion struct{ *resolver }

func (d demotion) DialHook(next redis.DialHook) redis.DialHook { return next }

func (d demotion) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

func (d demotion) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		err := next(ctx, cmds)
		for _, cmd := range cmds {
			if redis.IsReadOnlyError(cmd.Err()) {
				d.suspectNow()
				break
			}
		}
		return err
	}
}
