package testserver

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// Etcd gives an etcd server. Its heartbeats are so quick that it grants leases from
// one second on, where etcd's own default is two.
func Etcd(t testing.TB, opts ...Option) *Server {
	t.Helper()
	return start(t, etcdKind(), opts)
}

// EtcdCluster gives three etcd servers that act as one.
func EtcdCluster(t testing.TB, opts ...Option) *Cluster {
	t.Helper()
	k := etcdKind()
	k.leads = etcdLeads
	return startCluster(t, []kind{k, k, k}, opts)
}

func etcdKind() kind {
	return kind{store: "etcd", binaries: []string{"etcd"}, args: etcdArgs, ready: etcdReady}
}

// LoseData makes an etcd server come back empty, as after the loss of its disk.
func (s *Server) LoseData() {
	s.t.Helper()
	s.Kill()
	if err := os.RemoveAll(s.etcdData()); err != nil {
		s.t.Fatalf("testserver: %v", err)
	}
	s.Restart()
}

func (s *Server) etcdData() string { return filepath.Join(s.dir, "data") }

func etcdArgs(s *Server, port string) []string {
	if !s.config.durable {
		// What cannot be removed makes the server fail to start, which is told.
		_ = os.RemoveAll(s.etcdData())
	}
	name := func(i int) string { return fmt.Sprint("node", i) }
	// A node alone has no peers: the port that it listens on for them is of no interest.
	peer, members := "http://127.0.0.1:0", name(0)+"=http://127.0.0.1:0"
	if s.cluster != nil {
		var all []string
		for i, n := range s.cluster.Nodes {
			all = append(all, name(i)+"=http://"+n.peer)
		}
		peer, members = "http://"+s.peer, strings.Join(all, ",")
	}
	client := s.etcdURL(net.JoinHostPort(s.hostAddr(), port))
	heartbeat, election := "20", "200"
	if s.cluster != nil {
		heartbeat, election = "30", "300"
	}
	args := []string{
		"--name", name(s.index), "--data-dir", s.etcdData(), "--logger", "zap", "--log-level", "warn",
		"--listen-client-urls", client, "--advertise-client-urls", client,
		"--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", members,
		"--heartbeat-interval", heartbeat, "--election-timeout", election,
	}
	if s.config.password != "" {
		args = append(args, "--bcrypt-cost", "4") // the least: a login costs nothing
	}
	if s.config.tls {
		args = append(args, "--client-cert-auth", "--trusted-ca-file", s.TLS.CAFile,
			"--cert-file", s.TLS.CertFile, "--key-file", s.TLS.KeyFile)
	}
	return args
}

// etcdURL is the URL of an address for clients.
func (s *Server) etcdURL(addr string) string {
	if s.config.tls {
		return "https://" + addr
	}
	return "http://" + addr
}

// etcdReady: the server has a leader, and asks for the password if it is to.
func etcdReady(s *Server) error {
	body, err := s.etcdDo(http.MethodGet, "/health", nil)
	if err != nil {
		return err
	}
	if !bytes.Contains(body, []byte(`"true"`)) {
		return fmt.Errorf("health: %s", body)
	}
	if s.config.password == "" {
		return nil
	}
	_, err = s.etcdCall("auth/authenticate", map[string]string{"name": "root", "password": s.config.password})
	if err == nil || !strings.Contains(err.Error(), "not enabled") {
		return err
	}
	return s.etcdProtect()
}

// etcdProtect makes the server ask for the password of its user root.
func (s *Server) etcdProtect() error {
	for _, c := range []struct {
		method string
		body   map[string]string
	}{
		{"auth/user/add", map[string]string{"name": "root", "password": s.config.password}},
		{"auth/role/add", map[string]string{"name": "root"}},
		{"auth/user/grant", map[string]string{"user": "root", "role": "root"}},
		{"auth/enable", nil},
	} {
		if _, err := s.etcdCall(c.method, c.body); err != nil && !strings.Contains(err.Error(), "already") {
			return fmt.Errorf("%s: %w", c.method, err)
		}
	}
	return nil
}

// AddUser gives an etcd server WithPassword another user, who may do everything with
// the keys that begin with prefix, and nothing else. The user has a role of the same name.
func (s *Server) AddUser(name, password, prefix string) {
	s.t.Helper()
	end := []byte(prefix)
	end[len(end)-1]++
	s.etcdAsRoot("auth/user/add", map[string]string{"name": name, "password": password})
	s.etcdAsRoot("auth/role/add", map[string]string{"name": name})
	s.etcdAsRoot("auth/role/grant", map[string]any{"name": name, "perm": map[string]string{
		"permType":  "READWRITE",
		"key":       base64.StdEncoding.EncodeToString([]byte(prefix)),
		"range_end": base64.StdEncoding.EncodeToString(end),
	}})
	s.etcdAsRoot("auth/user/grant", map[string]string{"user": name, "role": name})
}

// ChangePassword gives a user of AddUser another password.
func (s *Server) ChangePassword(name, password string) {
	s.t.Helper()
	s.etcdAsRoot("auth/user/changepw", map[string]string{"name": name, "password": password})
}

// RevokeRole takes from a user of AddUser whatever it may do.
func (s *Server) RevokeRole(name string) {
	s.t.Helper()
	s.etcdAsRoot("auth/user/revoke", map[string]string{"name": name, "role": name})
}

// etcdAsRoot makes a call as the user root.
func (s *Server) etcdAsRoot(method string, body any) {
	s.t.Helper()
	reply, err := s.etcdCall("auth/authenticate", map[string]string{"name": "root", "password": s.config.password})
	token, _ := reply["token"].(string)
	if err != nil || token == "" {
		s.t.Fatalf("testserver: authenticate: %v", err)
	}
	if _, err := s.etcdCallAs(token, method, body); err != nil {
		s.t.Fatalf("testserver: %s: %v", method, err)
	}
}

// etcdLeads reports whether this node leads.
func etcdLeads(s *Server) bool {
	reply, err := s.etcdCall("maintenance/status", nil)
	if err != nil {
		return false
	}
	header, _ := reply["header"].(map[string]any)
	return reply["leader"] != nil && header["member_id"] == reply["leader"]
}

// etcdCall makes one call by etcd's gateway for JSON.
func (s *Server) etcdCall(method string, body any) (map[string]any, error) {
	return s.etcdCallAs("", method, body)
}

func (s *Server) etcdCallAs(token, method string, body any) (map[string]any, error) {
	if body == nil {
		body = struct{}{}
	}
	text, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	out, err := s.etcdDoAs(token, http.MethodPost, "/v3/"+method, text)
	if err != nil {
		return nil, err
	}
	var reply map[string]any
	return reply, json.Unmarshal(out, &reply)
}

func (s *Server) etcdDo(method, path string, body []byte) ([]byte, error) {
	return s.etcdDoAs("", method, path, body)
}

func (s *Server) etcdDoAs(token, method, path string, body []byte) (out []byte, err error) {
	transport := &http.Transport{DisableKeepAlives: true}
	if s.TLS != nil {
		transport.TLSClientConfig = s.TLS.Config
	}
	client := &http.Client{Timeout: readyWithin, Transport: transport}
	req, err := http.NewRequest(method, s.etcdURL(s.Addr)+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	if token != "" {
		req.Header.Set("Authorization", token)
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, resp.Body.Close()) }()
	out, err = io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		return nil, errors.New(strconv.Itoa(resp.StatusCode) + ": " + strings.TrimSpace(string(out)))
	}
	return out, err
}
