package containers

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/testcontainers/testcontainers-go"
)

// tick is ZooKeeper's unit of time; it grants session timeouts from twice that.
const tick = 100 * time.Millisecond

// Redis keeps nothing over a restart.
func Redis(t testing.TB) *Container {
	t.Helper()
	return start(t, kind{
		store: "redis", official: "redis:7.4.2", port: "6379",
		options: func(*Container) []testcontainers.ContainerCustomizer {
			return []testcontainers.ContainerCustomizer{
				testcontainers.WithEntrypoint("redis-server"),
				testcontainers.WithCmd("--bind", "0.0.0.0", "--protected-mode", "no", "--save", "", "--appendonly", "no"),
			}
		},
		ready: func(addr string) error { return converse(addr, "PING\r\n", "+PONG") },
	})
}

// Memcached does not evict.
func Memcached(t testing.TB) *Container {
	t.Helper()
	return start(t, kind{
		store: "memcached", official: "memcached:1.6.34", port: "11211",
		options: func(*Container) []testcontainers.ContainerCustomizer {
			return []testcontainers.ContainerCustomizer{
				testcontainers.WithEntrypoint("memcached"),
				testcontainers.WithCmd("-u", "root", "-U", "0", "-m", "64", "-M"),
			}
		},
		ready: func(addr string) error { return converse(addr, "version\r\n", "VERSION ") },
	})
}

// Etcd has heartbeats so quick that it grants leases from one second on. It does not sync to the
// disk: what a process that is killed has written is not lost by that.
func Etcd(t testing.TB) *Container {
	t.Helper()
	return start(t, kind{
		store: "etcd", official: "gcr.io/etcd-development/etcd:v3.5.17", port: "2379",
		options: func(c *Container) []testcontainers.ContainerCustomizer {
			return []testcontainers.ContainerCustomizer{
				testcontainers.WithEntrypoint("etcd"),
				testcontainers.WithCmd(
					"--name", "node0", "--data-dir", "/data", "--unsafe-no-fsync", "--logger", "zap", "--log-level", "warn",
					"--listen-client-urls", "http://0.0.0.0:2379", "--advertise-client-urls", "http://"+c.Addr,
					"--heartbeat-interval", "20", "--election-timeout", "200"),
			}
		},
		ready: etcdReady,
	})
}

func etcdReady(addr string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+"/health", http.NoBody)
	if err != nil {
		return err
	}
	transport := &http.Transport{DisableKeepAlives: true}
	defer transport.CloseIdleConnections()
	resp, err := (&http.Client{Transport: transport}).Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", resp.Status, body)
	}
	return err
}

// ZooKeeper keeps its data over a restart, without waiting for the disk.
func ZooKeeper(t testing.TB) *Container {
	t.Helper()
	config := strings.Join([]string{
		"dataDir=/data", "clientPort=2181",
		fmt.Sprintf("tickTime=%d", tick.Milliseconds()), fmt.Sprintf("minSessionTimeout=%d", (2 * tick).Milliseconds()), "maxSessionTimeout=60000",
		"admin.enableServer=false", "4lw.commands.whitelist=*", "maxClientCnxns=0", "forceSync=no", "",
	}, "\n")
	return start(t, kind{
		store: "zookeeper", official: "zookeeper:3.9.3", port: "2181",
		options: func(*Container) []testcontainers.ContainerCustomizer {
			return []testcontainers.ContainerCustomizer{
				testcontainers.WithEnv(map[string]string{
					"JAVA_TOOL_OPTIONS": "-Xmx192m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Djava.net.preferIPv4Stack=true " +
						"-Dzookeeper.jmx.log4j.disable=true -Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
				}),
				testcontainers.WithFiles(testcontainers.ContainerFile{
					Reader: strings.NewReader(config), ContainerFilePath: "/conf/zoo.cfg", FileMode: 0o644,
				}),
			}
		},
		ready: func(addr string) error { return converse(addr, "srvr", "Mode: ") },
	})
}

// Postgres trusts everybody, and does not wait for the disk.
func Postgres(t testing.TB) *Container {
	t.Helper()
	return start(t, kind{
		store: "postgres", official: "postgres:17.2", port: "5432",
		options: func(*Container) []testcontainers.ContainerCustomizer {
			return []testcontainers.ContainerCustomizer{
				testcontainers.WithEnv(map[string]string{"POSTGRES_HOST_AUTH_METHOD": "trust"}),
				testcontainers.WithCmd(
					"postgres", "-c", "listen_addresses=*", "-c", "unix_socket_directories=/tmp", "-c", "max_connections=500", "-c", "fsync=off"),
			}
		},
		ready: postgresReady,
	})
}

// postgresReady: the server answers a greeting with a request for authentication.
func postgresReady(addr string) error {
	conn, err := net.DialTimeout("tcp", addr, time.Second)
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(2 * time.Second)); err != nil {
		return err
	}
	const version = 3 << 16
	text := "user\x00postgres\x00database\x00postgres\x00\x00"
	hello := binary.BigEndian.AppendUint32(nil, uint32(8+len(text)))
	if _, err := conn.Write(append(binary.BigEndian.AppendUint32(hello, version), text...)); err != nil {
		return err
	}
	var kind [1]byte
	if _, err := io.ReadFull(conn, kind[:]); err != nil {
		return err
	}
	if kind[0] != 'R' {
		return fmt.Errorf("it answers with message %q", kind[0])
	}
	return nil
}

// converse sends text and wants a line of the answer to begin with want.
func converse(addr, text, want string) error {
	conn, err := net.DialTimeout("tcp", addr, time.Second)
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(2 * time.Second)); err != nil {
		return err
	}
	if _, err := io.WriteString(conn, text); err != nil {
		return err
	}
	lines := bufio.NewScanner(conn)
	for lines.Scan() {
		if strings.HasPrefix(lines.Text(), want) {
			return nil
		}
	}
	return fmt.Errorf("no %q in the answer to %q: %w", want, text, lines.Err())
}
