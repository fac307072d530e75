package redis

import (
	"bufio"
	"errors"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/internal/testserver"
)

// speaker is a server that answers each command by what answer gives for its name, and closes the connection at "".
func speaker(t *testing.T, answer func(command string) string) (addr string) {
	t.Helper()
	l := must[net.Listener](t)(net.Listen("tcp", "127.0.0.1:0"))
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				for lines := bufio.NewScanner(conn); lines.Scan(); {
					name := strings.ToLower(lines.Text())
					if name == "" || strings.ContainsAny(name[:1], "*$") || name == "server" || name == "2" || strings.HasPrefix(name, channelPrefix) {
						continue
					}
					if _, err := io.WriteString(conn, answer(name)); err != nil || answer(name) == "" {
						return
					}
				}
			}()
		}
	}()
	return l.Addr().String()
}

// TestWhatIsMetInPlaceOfRedis: an error of Open says what answers at the address, and what to do.
func TestWhatIsMetInPlaceOfRedis(t *testing.T) {
	t.Parallel()
	proxy := func(ofInfo string) string {
		return speaker(t, func(command string) string {
			if command == "ping" {
				return "+PONG\r\n"
			}
			return ofInfo
		})
	}
	info := func(text string) string {
		return speaker(t, func(command string) string {
			switch command {
			case "ping":
				return "+PONG\r\n"
			case "info":
				return "+" + text + "\r\n"
			case "hello":
				return "-ERR unknown command 'hello'\r\n"
			}
			return ":0\r\n"
		})
	}
	renamed := testserver.Redis(t, testserver.WithFlags("--rename-command", "INFO", ""), silently)
	sentinels := testserver.RedisSentinel(t, silently)
	for name, tt := range map[string]struct {
		url, want string
		is        error
	}{
		"twemproxy":            {"redis://" + proxy(""), "the server closed the connection: check the port", io.EOF},
		"Envoy":                {"redis://" + proxy("-ERR unknown command 'info', with args beginning with: 'server'\r\n"), "Envoy answers", driver.ErrNotSent},
		"an older Envoy":       {"redis://" + proxy("-unsupported command 'info'\r\n"), "Envoy answers", driver.ErrNotSent},
		"INFO was renamed":     {"redis://" + renamed.Addr, "INFO was renamed: give the address of the server itself", driver.ErrNotSent},
		"a sentinel":           {"redis://" + sentinels.Sentinels()[0], "the server is a sentinel: use redis+sentinel://", driver.ErrUnsupported},
		"an active replica":    {"redis://" + info("role:active-replica"), "active replica of KeyDB: two of them grant a lock twice", driver.ErrUnsupported},
		"PostgreSQL":           {"redis://" + testserver.Postgres(t).Addr, "the server closed the connection: check the port", io.EOF},
		"etcd":                 {"redis://" + testserver.Etcd(t).Addr, "check the port", nil},
		"several hosts":        {"redis://a,b", "2 hosts: want one, or redis+cluster:// for the nodes of a cluster, or redis+sentinel://", driver.ErrInvalid},
		"several Valkey hosts": {"valkey://a,b", "or redis+cluster://", driver.ErrInvalid},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := openURL(t, tt.url)
			if err == nil || tt.is != nil && !errors.Is(err, tt.is) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v, want %q", err, tt.want)
			}
		})
	}
}
