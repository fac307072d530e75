package redis

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/coordgo/coord/driver"
)

// What may be met in place of a Redis server, and what to do about it.

// noInfo is the remedy where PING is answered and INFO is not known.
const noInfo = "INFO is not known: a proxy such as twemproxy or Envoy answers, which may spread locks over servers, or INFO was renamed: " +
	"give the address of the server itself; to keep INFO from a user, deny it by ACL"

// unfit refuses a server that says by INFO that it cannot keep locks.
func unfit(about map[string]string) error {
	if about["redis_mode"] == "sentinel" {
		return fmt.Errorf("%w: the server is a sentinel: use redis+sentinel://host:26379/MASTER, or redis:// with the port of the data", driver.ErrUnsupported)
	}
	if about["role"] == "active-replica" {
		return fmt.Errorf("%w: the server is an active replica of KeyDB: two of them grant a lock twice: use one server without active-replica", driver.ErrUnsupported)
	}
	return nil
}

// closed: the other side has ended the connection in place of an answer.
func closed(err error) bool {
	var reply redis.Error
	return !errors.As(err, &reply) && (errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE))
}

// explain says what is wrong with the URL if the store could not be opened.
func (t *target) explain(ctx context.Context, err error) error {
	if closed(err) && t.topology == single && t.options.TLSConfig == nil {
		if other := t.otherServer(ctx); other != "" {
			return fmt.Errorf("%s: %w", other, err)
		}
	}
	return t.url.Explain(err)
}

// otherServer says what is at the address, and closes connections to which a server of Redis replies, if it can be told.
func (t *target) otherServer(ctx context.Context) string {
	if reply := t.say(ctx, "\x00\x00\x00\x08\x04\xd2\x16\x2f"); len(reply) == 1 && (reply[0] == 'S' || reply[0] == 'N') {
		return "PostgreSQL answers there: check the port" // that was SSLRequest
	}
	if ping := t.say(ctx, "*1\r\n$4\r\nPING\r\n"); string(ping) == "+PONG\r\n" {
		for _, closes := range []string{"*2\r\n$5\r\nHELLO\r\n$1\r\n2\r\n", "*2\r\n$4\r\nINFO\r\n$6\r\nserver\r\n"} {
			if len(t.say(ctx, closes)) == 0 {
				return noInfo
			}
		}
	}
	reply := t.say(ctx, "GET /version HTTP/1.0\r\n\r\n")
	switch {
	case !bytes.HasPrefix(reply, []byte("HTTP/")):
		return ""
	case bytes.Contains(reply, []byte("etcdserver")):
		return "etcd answers there: check the port"
	}
	return "a web server answers there: check the port"
}

// say sends a text over a connection of its own, and gives what is answered within a second.
func (t *target) say(ctx context.Context, text string) []byte {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	conn, err := redis.NewDialer(&redis.Options{DialTimeout: time.Second})(ctx, "tcp", t.options.Addrs[0])
	if err != nil {
		return nil
	}
	defer conn.Close()
	deadline, _ := ctx.Deadline()
	if conn.SetDeadline(deadline) != nil {
		return nil
	}
	if _, err := io.WriteString(conn, text); err != nil {
		return nil
	}
	reply := make([]byte, 4096)
	n, _ := conn.Read(reply)
	return reply[:n]
}

// manyHosts says which URLs have several hosts.
func manyHosts(err error) error {
	if strings.Contains(err.Error(), "hosts: want one") {
		return fmt.Errorf("%w, or redis+cluster:// for the nodes of a cluster, or redis+sentinel://…/MASTER for sentinels", err)
	}
	return err
}
