package testserver

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// zookeeperTick is the unit of time of the servers that this package starts.
// They grant session timeouts from twice that to a minute.
const zookeeperTick = 100 * time.Millisecond

// zookeeperAnswer is how long a question waits at first: one that comes while the server
// starts may never be answered. The next one waits twice as long, because the machine may be busy.
const zookeeperAnswer = 300 * time.Millisecond

// ZooKeeper gives a ZooKeeper server. WithConfig adds lines to its zoo.cfg.
func ZooKeeper(t testing.TB, opts ...Option) *Server {
	t.Helper()
	return start(t, zookeeperKind(nil), opts)
}

// ZooKeeperCluster gives an ensemble of three servers.
func ZooKeeperCluster(t testing.TB, opts ...Option) *Cluster {
	t.Helper()
	var elections []string
	for range 3 {
		port, err := freePort()
		if err != nil || slices.Contains(elections, port) {
			t.Fatalf("testserver: ports of an ensemble: %v, %v", elections, err)
		}
		elections = append(elections, port)
	}
	k := zookeeperKind(elections)
	return startCluster(t, []kind{k, k, k}, opts)
}

// zookeeperKind is a server of its own, or one of as many as there are ports for
// elections.
func zookeeperKind(elections []string) kind {
	k := kind{
		store: "zookeeper",
		// No binary of this name exists: the message says what is missing.
		binaries: []string{"java with zookeeper.jar"},
		args:     func(s *Server, port string) []string { return zookeeperArgs(s, port, elections) },
		ready:    zookeeperReady,
		leads:    func(s *Server) bool { return zookeeperMode(s) == "leader" },
	}
	if zookeeperJars() != "" {
		k.binaries = []string{"java"}
	}
	return k
}

// zookeeperJars is the class path of the server: that of an unpacked release which ZOOKEEPER_HOME names, or else what is
// installed by Debian's and Ubuntu's package, or by Homebrew.
func zookeeperJars() string {
	release := func(homes ...string) string {
		for _, home := range homes {
			if found, _ := filepath.Glob(filepath.Join(home, "lib", "zookeeper-[0-9]*.jar")); home != "" && len(found) > 0 {
				jars, _ := filepath.Glob(filepath.Join(home, "lib", "*.jar"))
				slices.Reverse(jars) // ZooKeeper's own first: a jar of Debian's refers to those that are installed
				return strings.Join(jars, string(os.PathListSeparator))
			}
		}
		return ""
	}
	if jars := release(os.Getenv("ZOOKEEPER_HOME")); jars != "" {
		return jars
	}
	const debian = "/usr/share/java/"
	if _, err := os.Stat(debian + "zookeeper.jar"); err == nil {
		jars := []string{debian + "zookeeper.jar", debian + "slf4j-simple.jar"}
		netty, _ := filepath.Glob(debian + "netty-*.jar") // the pattern is well-formed
		return strings.Join(append(jars, netty...), string(os.PathListSeparator))
	}
	return release("/opt/homebrew/opt/zookeeper/libexec", "/usr/local/opt/zookeeper/libexec")
}

// zookeeperArgs writes the server's configuration and gives the arguments of java.
func zookeeperArgs(s *Server, port string, elections []string) []string {
	data := filepath.Join(s.dir, "data")
	if !s.config.durable {
		// What a server before this one has left.
		if err := os.RemoveAll(data); err != nil {
			s.t.Errorf("testserver: %v", err)
		}
	}
	lines := []string{
		"dataDir=" + data,
		fmt.Sprintf("tickTime=%d", zookeeperTick.Milliseconds()),
		fmt.Sprintf("minSessionTimeout=%d", (2 * zookeeperTick).Milliseconds()),
		"maxSessionTimeout=60000",
		"initLimit=100", "syncLimit=20",
		"admin.enableServer=false", "4lw.commands.whitelist=*", "maxClientCnxns=0",
	}
	lines = append(lines, zookeeperPorts(s, port)...)
	for i, election := range elections {
		node := s.cluster.Nodes[i]
		_, peer, err := net.SplitHostPort(node.peer)
		if err != nil {
			s.t.Errorf("testserver: address %s: %v", node.peer, err)
		}
		lines = append(lines, fmt.Sprintf("server.%d=%s:%s:%s", i+1, node.hostAddr(), peer, election))
	}
	if elections != nil {
		lines = append(lines, "standaloneEnabled=false", "quorumListenOnAllIPs=false")
	}
	lines = append(lines, s.config.lines...)
	cfg := filepath.Join(s.dir, "zoo.cfg")
	for file, text := range map[string]string{
		cfg:                         strings.Join(lines, "\n") + "\n",
		filepath.Join(data, "myid"): strconv.Itoa(s.index+1) + "\n",
	} {
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			s.t.Errorf("testserver: %v", err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			s.t.Errorf("testserver: %v", err)
		}
	}
	args := []string{
		"-Xmx192m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Djava.net.preferIPv4Stack=true",
		"-Dzookeeper.jmx.log4j.disable=true", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
	}
	if runtime.GOOS == "linux" {
		args = append(args, "-XX:-UsePerfData") // no file in the temporary directory
	}
	if s.config.tls {
		args = append(args, "-Dzookeeper.serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory")
	}
	return append(args, "-cp", zookeeperJars(), "org.apache.zookeeper.server.quorum.QuorumPeerMain", cfg)
}

// zookeeperPorts are the lines about the client port.
func zookeeperPorts(s *Server, port string) []string {
	if !s.config.tls {
		return []string{"clientPort=" + port, "clientPortAddress=" + s.hostAddr()}
	}
	// One file with the certificate and its key serves as the key store.
	pem := filepath.Join(s.dir, "server.pem")
	var both []byte
	for _, file := range []string{s.TLS.KeyFile, s.TLS.CertFile} {
		b, err := os.ReadFile(file)
		if err != nil {
			s.t.Errorf("testserver: %v", err)
		}
		both = append(both, b...)
	}
	if err := os.WriteFile(pem, both, 0o600); err != nil {
		s.t.Errorf("testserver: %v", err)
	}
	return []string{
		"secureClientPort=" + port, "secureClientPortAddress=" + s.hostAddr(),
		"ssl.keyStore.location=" + pem, "ssl.keyStore.type=PEM", "ssl.keyStore.password=",
		"ssl.trustStore.location=" + s.TLS.CAFile, "ssl.trustStore.type=PEM", "ssl.trustStore.password=",
		"ssl.clientAuth=need",
	}
}

// zookeeperReady: the server serves, alone or in an ensemble.
func zookeeperReady(s *Server) error {
	reply, err := s.zookeeperAsk("srvr")
	if err != nil {
		return err
	}
	if !strings.Contains(reply, "Mode: ") {
		return fmt.Errorf("reply %q", reply)
	}
	return nil
}

// zookeeperMode is "leader", "follower", "standalone", or "" of one that does not serve.
func zookeeperMode(s *Server) string {
	reply, err := s.zookeeperAsk("srvr")
	if err != nil {
		return ""
	}
	_, rest, _ := strings.Cut(reply, "Mode: ")
	mode, _, _ := strings.Cut(rest, "\n")
	return mode
}

// zookeeperAsk sends one of the server's four letter words, again and again while it is not answered.
func (s *Server) zookeeperAsk(word string) (reply string, err error) {
	for patience := zookeeperAnswer; patience < readyWithin/4; patience *= 2 {
		if reply, err = s.zookeeperAskOnce(word, patience); !os.IsTimeout(err) {
			break
		}
	}
	return reply, err
}

func (s *Server) zookeeperAskOnce(word string, patience time.Duration) (string, error) {
	dialer := &net.Dialer{Timeout: max(patience, time.Second)}
	var conn net.Conn
	var err error
	if s.TLS != nil {
		conn, err = tls.DialWithDialer(dialer, "tcp", s.Addr, s.TLS.Config)
	} else {
		conn, err = dialer.Dial("tcp", s.Addr)
	}
	if err != nil {
		return "", err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		return "", err
	}
	if _, err := io.WriteString(conn, word); err != nil {
		return "", err
	}
	b, err := io.ReadAll(bufio.NewReader(conn))
	return string(b), err
}

// Wipe makes the server lose all its data at once: it ends, and starts again
// with nothing, Durable or not.
func (s *Server) Wipe() {
	s.t.Helper()
	s.Kill()
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		s.t.Fatal(err)
	}
	for _, e := range entries {
		if e.IsDir() {
			if err := os.RemoveAll(filepath.Join(s.dir, e.Name())); err != nil {
				s.t.Fatal(err)
			}
		}
	}
	s.Restart()
}
