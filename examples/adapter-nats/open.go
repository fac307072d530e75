package natskv

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/driver/cas"
)

func init() { driver.Register("nats", Open) }

// New opens a bucket over a connection that the application has, and leaves it open. It
// refuses a bucket whose settings break what [Claims] says, and tells how it should be.
func New(ctx context.Context, nc *nats.Conn, bucket string) (driver.Backend, error) {
	return backend(ctx, newLink(nc, false), bucket)
}

// backend closes l with the backend, and if there is none.
func backend(ctx context.Context, l *link, bucket string) (driver.Backend, error) {
	v, skew, err := probe(ctx, l, bucket)
	if err != nil {
		l.close()
		return nil, err
	}
	return cas.New(driver.Info{
		Name:    "nats",
		Server:  "NATS " + l.nc.ConnectedServerVersion(),
		MinTTL:  10 * time.Millisecond,
		TTLStep: time.Millisecond,
		MaxTTL:  driver.MaxPer,
		Claims:  Claims,
	}, cas.Optimistic(v), cas.WithSkew(skew)), nil
}

// probe looks at the connection, the bucket and the clock.
func probe(ctx context.Context, l *link, bucket string) (*versions, time.Duration, error) {
	if !validBucket(bucket) {
		return nil, 0, fmt.Errorf("%w: bucket %q: want letters, digits, - and _", driver.ErrInvalid, bucket)
	}
	if l.nc.Opts.UseOldRequestStyle {
		return nil, 0, fmt.Errorf("%w: nats.UseOldRequestStyle waits for replies that cannot come any more: leave it out", driver.ErrUnsupported)
	}
	info, err := look(ctx, l, bucket)
	if err != nil {
		return nil, 0, err
	}
	skew, err := check(bucket, info.Config)
	if err != nil {
		return nil, 0, err
	}
	if n := l.nc.MaxPayload(); n < roomy {
		return nil, 0, fmt.Errorf("%w: the server's max_payload is %d: want %d or more", driver.ErrUnsupported, n, roomy)
	}
	v := &versions{link: l, bucket: bucket}
	v.clock.longest, v.clock.stamp = (skew-drift)/2, v.stamp
	_, err = v.clock.now(ctx)
	return v, skew, err
}

// Open opens the bucket that a URL names: nats://[user:password@]host:port[,host:port…]/bucket, or tls://
// by ?tls=true. With ?replicas=1 (or 3, 5) a bucket that is not there is created, with ?skew=300ms as said at [Config].
func Open(ctx context.Context, u *url.URL) (driver.Backend, error) {
	bucket, c, opts, err := read(u)
	if err != nil {
		return nil, err
	}
	nc, err := connect(ctx, u, opts)
	if err != nil {
		return nil, err
	}
	if c != nil {
		if err := Create(ctx, nc, *c); err != nil {
			nc.Close()
			return nil, err
		}
	}
	return backend(ctx, newLink(nc, true), bucket)
}

// read takes a URL apart. c is how to make the bucket, nil if that was not asked for.
func read(u *url.URL) (bucket string, c *Config, opts []nats.Option, err error) {
	query, err := url.ParseQuery(u.RawQuery)
	bucket = strings.TrimPrefix(u.Path, "/")
	switch {
	case err != nil:
		return "", nil, nil, fmt.Errorf("%w: the query of the URL is malformed", driver.ErrInvalid)
	case u.Host == "" || u.Fragment != "" || !validBucket(bucket):
		return "", nil, nil, fmt.Errorf("%w: want a URL like nats://host:4222/bucket", driver.ErrInvalid)
	}
	c = &Config{Bucket: bucket}
	for name, values := range query {
		value := values[0]
		switch name {
		case "replicas":
			c.Replicas, err = strconv.Atoi(value)
		case "skew":
			c.Skew, err = time.ParseDuration(value)
		case "tls":
			var secure bool
			if secure, err = strconv.ParseBool(value); secure {
				opts = append(opts, nats.Secure())
			}
		default:
			return "", nil, nil, fmt.Errorf("%w: parameter %q: want replicas, skew, tls or prefix", driver.ErrInvalid, name)
		}
		if err != nil || len(values) > 1 {
			return "", nil, nil, fmt.Errorf("%w: parameter %s=%.40q", driver.ErrInvalid, name, value)
		}
	}
	switch {
	case c.Replicas == 0 && c.Skew != 0:
		return "", nil, nil, fmt.Errorf("%w: skew is for a bucket that is created: give replicas, too", driver.ErrInvalid)
	case c.Replicas == 0:
		c = nil
	}
	return bucket, c, opts, nil
}

// connect makes a connection for us alone, within ctx.
func connect(ctx context.Context, u *url.URL, opts []nats.Option) (*nats.Conn, error) {
	within := timeout
	if end, ok := ctx.Deadline(); ok {
		// A moment longer, so that it is ctx that ends it, and its error that is given.
		within = min(within, max(0, time.Until(end))+50*time.Millisecond)
	}
	if u.User != nil {
		password, _ := u.User.Password()
		opts = append(opts, nats.UserInfo(u.User.Username(), password))
	}
	opts = append(opts,
		nats.Name("coord"),
		nats.Timeout(within),
		nats.MaxReconnects(-1),
		nats.ReconnectWait(50*time.Millisecond),
		nats.ReconnectJitter(50*time.Millisecond, 50*time.Millisecond),
		nats.ReconnectBufSize(-1), // nothing is sent later than it was meant
		nats.PingInterval(5*time.Second),
		nats.FlusherTimeout(2*time.Second),
		nats.IgnoreDiscoveredServers(),
	)
	var servers []string
	for _, host := range strings.Split(u.Host, ",") {
		servers = append(servers, "nats://"+host)
	}
	came := make(chan *nats.Conn, 1)
	failed := make(chan error, 1)
	go func() {
		nc, err := nats.Connect(strings.Join(servers, ","), opts...)
		if err != nil {
			failed <- err
			return
		}
		came <- nc
	}()
	select {
	case nc := <-came:
		return nc, nil
	case err := <-failed:
		return nil, ended(ctx, err)
	case <-ctx.Done():
		go func() {
			select {
			case nc := <-came:
				nc.Close()
			case <-failed:
			}
		}()
		return nil, ended(ctx, errors.New("nats: connect"))
	}
}
