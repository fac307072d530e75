package mistakes

import (
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/coordgo/coord"
	_ "github.com/coordgo/coord/backends/all"
	"github.com/coordgo/coord/config"
	"github.com/coordgo/coord/internal/testserver"
	"github.com/jackc/pgx/v5"
)

var update = flag.Bool("update", false, "write the table of docs/errors.md")

// secret is in each URL that has a password which no text may show.
const secret = "zz-s3cr3t-zz"

// mistake is one of a user.
type mistake struct {
	name string // in the table; "" is not in it
	url  string
	want string // what is said, up to what the client library or the server says
}

// The text of each mistake is that of the table, said by the command to the store itself, and nothing else is written but
// warnings of coord: no line of a client library, and no secret.
func TestMistakes(t *testing.T) {
	var list []mistake
	list = append(list, ofRedis(t)...)
	list = append(list, ofRedisTopologies(t)...)
	list = append(list, ofEtcd(t)...)
	list = append(list, ofZooKeeper(t)...)
	list = append(list, ofMemcached(t)...)
	list = append(list, ofPostgres(t)...)
	list = append(list, ofNetwork(t)...)
	command := build(t)
	t.Run("each", func(t *testing.T) {
		for _, m := range list {
			t.Run(m.name+" "+m.want, func(t *testing.T) {
				t.Parallel()
				cmd := exec.CommandContext(t.Context(), command, "lock", "job", "--no-wait", "--", "true")
				cmd.Env = append(os.Environ(), config.EnvURL+"="+m.url)
				out, err := cmd.CombinedOutput()
				var exit *exec.ExitError
				if !errors.As(err, &exit) || exit.ExitCode() != unavailable {
					t.Errorf("%s: %v, want exit status %d", m.url, err, unavailable)
				}
				got := string(out)
				if !regexp.MustCompile(`^([0-9/: ]+ WARN [^\n]*\n)*coord: [^\n]*: `+regexp.QuoteMeta(m.want)+`[^\n]*\n$`).MatchString(got) || strings.Contains(got, secret) {
					t.Errorf("%s\n got: %swant: %s", m.url, got, m.want)
				}
			})
		}
	})
	if !t.Failed() {
		checkTable(t, append(atOnce(t), list...))
	}
}

// unavailable is the exit status of all these mistakes.
const unavailable = 69

// build compiles the command.
func build(t *testing.T) string {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "coord")
	cmd := exec.CommandContext(t.Context(), "go", "build", "-o", binary, "github.com/coordgo/coord/cmd/coord")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return binary
}

// atOnce are the mistakes that need no server.
func atOnce(t *testing.T) []mistake {
	t.Helper()
	forgotten, err := exec.CommandContext(t.Context(), "go", "run", "./forgotten").Output()
	if err != nil {
		t.Fatal(err)
	}
	_, scheme := coord.Open(t.Context(), "reddis://host")
	_, parameter := coord.Open(t.Context(), "redis://host?timeout=5s")
	_, slash := coord.Open(t.Context(), "redis://:"+secret+"/x@host")
	_, percent := coord.Open(t.Context(), "redis://:50%"+secret+"@host")
	_, hosts := coord.Open(t.Context(), "redis://a,b")
	_, database := coord.Open(t.Context(), "postgres://host")
	_, rate := coord.ParseLimit("2,000/min")
	_, yaml := config.Parse("coord.yaml", []byte("lock: {ttl: 30}\n"))
	list := []mistake{
		{"the package of the store is not imported", strings.TrimSpace(string(forgotten)), `scheme "redis" is not registered: import _ "github.com/coordgo/coord/backends/redis"`},
		{"`reddis://`", scheme.Error(), `scheme "reddis" is not registered: did you mean redis?`},
		{"a parameter that the store does not have", parameter.Error(), `parameter "timeout": want prefix, client_name, dial_timeout`},
		{"a `/` or `@` in a password", slash.Error(), "store URL: an @ behind the hosts: write / ? # of a password as %2F %3F %23, and an @ elsewhere as %40"},
		{"a `%` in a password", percent.Error(), "store URL: a % without two hexadecimal digits behind it: write a % of a password as %25"},
		{"`redis://` with two hosts", hosts.Error(), "store URL: 2 hosts: want one, or redis+cluster:// for the nodes of a cluster, or redis+sentinel://…/MASTER for sentinels"},
		{"`postgres://` without a database", database.Error(), "store URL: want a database: postgres://host/database"},
		{"a rate of `2,000/min`", rate.Error(), `limit "2,000/min": rate "2,000" is not a whole number: want "2000/min"`},
		{"a duration without a unit", yaml.Error(), `coord.yaml:1: lock.ttl: "30": want a duration such as 30s`},
	}
	for _, m := range list {
		if !strings.Contains(m.url, m.want) || strings.Contains(m.url, secret) {
			t.Errorf("%s\n got: %s\nwant: %s", m.name, m.url, m.want)
		}
	}
	return list
}

func ofRedis(t *testing.T) []mistake {
	guarded := testserver.Redis(t, testserver.WithPassword("right")).Addr
	open := testserver.Redis(t, testserver.WithFlags(
		"--user", "reader", "on", ">"+secret, "~coord:*", "&*", "+@read", "+hello", "+ping",
		"--user", "other", "on", ">"+secret, "~other:*", "&*", "+@all",
	)).Addr
	replica := testserver.Redis(t, testserver.WithFlags("--replicaof", "127.0.0.1", "1")).Addr
	full := testserver.Redis(t, testserver.WithFlags("--maxmemory", "1")).Addr
	return []mistake{
		{"a wrong password", "redis://u:" + secret + "@" + guarded, "wrong user or password: "},
		{"no password", "redis://" + guarded, "the server asks for a password: give one, as in redis://:password@host: "},
		{"", "redis+cluster://:" + secret + "@" + guarded, "wrong user or password: "},
		{"a number of a database that is too large", "redis://" + open + "/99", "the server has no database of this number: use a smaller one: "},
		{"a Redis user without a command", "redis://reader:" + secret + "@" + open, "the user may not run evalsha: grant it with ACL SETUSER name +evalsha: "},
		{"a Redis user without the keys", "redis://other:" + secret + "@" + open, `the user may not use the key "coord:{job}": grant it with ACL SETUSER name ~coord:*: `},
		{"a Redis replica", "redis://" + replica, "the server is a replica: use the address of the master, or redis+sentinel://: "},
		{"a Redis whose memory is full", "redis://" + full, "the memory of the server is full: raise maxmemory: "},
		{"`redis+cluster://` with one server", "redis+cluster://" + open, "the server is not in a cluster: use redis:// in place of redis+cluster://: "},
		{"`redis+sentinel://` with the port of the data", "redis+sentinel://" + open + "/mymaster", "the server is not a sentinel: use its port, 26379 as a rule, or redis:// in place of redis+sentinel://: "},
		{"`rediss://` with a plain port", "rediss://:" + secret + "@" + open, "no answer in time: check host and port; if the port does not speak TLS, use redis://: "},
		{"", "memcached://" + open, "the server does not speak the protocol of memcached: check the port: "},
		{"", "etcd://" + open, "the server does not speak the protocol of etcd: check the port: "},
		{"", "redis://" + testserver.Etcd(t).Addr, "the server closed the connection: check the port; if it speaks TLS, use rediss://: "},
	}
}

func ofRedisTopologies(t *testing.T) []mistake {
	secure := testserver.Redis(t, testserver.WithTLS())
	node := testserver.RedisCluster(t, 0)
	slot := node.RedisMaster(node.RedisSlot("coord:{job}"))
	other := node.Nodes[0]
	if other == slot {
		other = node.Nodes[1]
	}
	sentinel := testserver.RedisSentinel(t).Sentinels()[0]
	name := "?tls_server_name=elsewhere.example&tls_cert=" + secure.TLS.CertFile + "&tls_key=" + secure.TLS.KeyFile
	return []mistake{
		{"`redis://` with a node of a cluster", "redis://" + other.Addr, "the server is in a cluster: use redis+cluster:// in place of redis://: "},
		{"", "redis://" + slot.Addr + "/3", "a cluster has only database 0: use redis+cluster:// without a number: "},
		{"`redis+cluster://` with a sentinel", "redis+cluster://" + sentinel, "the server is a sentinel: use redis+sentinel://host:26379/MASTER, or the nodes of the cluster: "},
		{"a name of a master that the sentinels do not know", "redis+sentinel://" + sentinel + "/other", "the sentinels do not know a master of this name: correct the path of the URL: "},
		{"`redis://` with a port for TLS", "redis://" + secure.Addr, "the server closed the connection: check the port; if it speaks TLS, use rediss://: "},
		{"a certificate of an unknown authority", "rediss://" + secure.Addr, "the server's certificate is of an unknown authority: give tls_ca: "},
		{"a certificate for another name", "rediss://" + secure.Addr + name + "&tls_ca=" + secure.TLS.CAFile, "the server's certificate is for another name: give tls_server_name: "},
	}
}

func ofEtcd(t *testing.T) []mistake {
	guarded := testserver.Etcd(t, testserver.WithPassword("right"))
	guarded.AddUser("app", secret, "mine/")
	plain, secure := testserver.Etcd(t).Addr, testserver.Etcd(t, testserver.WithTLS()).Addr
	return []mistake{
		{"", "etcd://root:" + secret + "@" + guarded.Addr, "wrong user or password: "},
		{"", "etcd://" + guarded.Addr, "the server asks for a user and a password: give them, as in etcd://user:password@host: "},
		{"an etcd user without the prefix", "etcd://app:" + secret + "@" + guarded.Addr, `the user may not read and write under "coord/": grant it with etcdctl role grant-permission ROLE --prefix readwrite coord/: `},
		{"`etcds://` with a plain port", "etcds://" + plain, "the port does not speak TLS: use etcd://, or the port for TLS: "},
		{"", "etcd://" + secure, "the server closed the connection: check the port; if it speaks TLS, use etcds://: "},
		{"", "etcds://" + secure, "the server's certificate is of an unknown authority: give tls_ca: "},
	}
}

func ofZooKeeper(t *testing.T) []mistake {
	plain, secure := testserver.ZooKeeper(t).Addr, testserver.ZooKeeper(t, testserver.WithTLS()).Addr
	owner, err := coord.Open(t.Context(), "zookeeper://owner:right@"+plain)
	if err != nil {
		t.Fatal(err)
	}
	if err := owner.Close(); err != nil {
		t.Fatal(err)
	}
	const foreign = "the nodes under /coord belong to another user, or the password is wrong: use the user who made them: "
	return []mistake{
		{"a wrong password or user of ZooKeeper", "zookeeper://owner:" + secret + "@" + plain, foreign},
		{"", "zookeeper://" + plain, foreign},
		{"", "zookeepers://" + plain, "the port does not speak TLS: use zookeeper://, or the port for TLS: "},
		{"", "zookeeper://" + secure, "the server closed the connection: check the port; if it speaks TLS, use zookeepers://: "},
		{"", "zookeepers://" + secure, "the server's certificate is of an unknown authority: give tls_ca: "},
	}
}

func ofMemcached(t *testing.T) []mistake {
	guarded := testserver.Memcached(t, testserver.WithPassword("right")).Addr
	plain, secure := testserver.Memcached(t).Addr, testserver.Memcached(t, testserver.WithTLS()).Addr
	return []mistake{
		{"", "memcached://u:" + secret + "@" + guarded, "wrong user or password: "},
		{"", "memcached://" + guarded, "the server asks for a user and a password: give them, as in memcached://user:password@host: "},
		{"", "memcacheds://" + plain, "the port does not speak TLS: use memcached://, or the port for TLS: "},
		{"", "memcached://" + secure, "the server closed the connection: check the port; if it speaks TLS, use memcacheds://: "},
		{"", "memcacheds://" + secure, "the server's certificate is of an unknown authority: give tls_ca: "},
		{"the port of another product", "redis://" + plain, "the server does not speak the protocol of redis: check the port: "},
	}
}

func ofPostgres(t *testing.T) []mistake {
	guarded := testserver.Postgres(t, testserver.WithPassword("right")).Addr
	plain, secure := testserver.Postgres(t).Addr, testserver.Postgres(t, testserver.WithTLS()).Addr
	postgres := func(user, addr, rest string) string { return "postgres://" + user + "@" + addr + rest }
	admin, err := pgx.Connect(t.Context(), testserver.PostgresURL(testserver.PostgresUser, plain))
	if err != nil {
		t.Fatal(err)
	}
	_, err = admin.Exec(t.Context(), "CREATE ROLE app LOGIN")
	if err := errors.Join(err, admin.Close(t.Context())); err != nil {
		t.Fatal(err)
	}
	const root = testserver.PostgresUser
	return []mistake{
		{"", postgres(root+":"+secret, guarded, "/postgres?sslmode=disable"), "wrong user or password: "},
		{"a PostgreSQL user that does not exist", postgres("nobody", plain, "/postgres?sslmode=disable"), "the server has no such user, or its pg_hba.conf refuses user or host: "},
		{"a database that does not exist", postgres(root, plain, "/nosuch?sslmode=disable"), "the server has no such database: make it, or correct the path of the URL: "},
		{"a PostgreSQL user who may not make the tables", postgres("app", plain, "/postgres?sslmode=disable"), "schema coord lacks tables or functions: run what coord schema postgres prints, as a user who may make them"},
		{"`sslmode=require` with a server without TLS", postgres(root, plain, "/postgres?sslmode=require"), "the server has no TLS: set ssl = on there, or sslmode=disable: "},
		{"", postgres(root, secure, "/postgres?sslmode=verify-full"), "the server's certificate is of an unknown authority: give sslrootcert: "},
		{"", "redis://" + plain, "the server closed the connection: check the port; if it speaks TLS, use rediss://: "},
		{"", "memcached://" + plain, "the server closed the connection: check the port; if it speaks TLS, use memcacheds://: "},
	}
}

// ofNetwork are those that all stores have.
func ofNetwork(t *testing.T) []mistake {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = silent.Close() })
	var list []mistake
	for i, scheme := range []string{"redis", "redis+cluster", "redis+sentinel", "etcd", "zookeeper", "memcached", "postgres"} {
		path := map[string]string{"redis+sentinel": "/mymaster", "postgres": "/app?sslmode=disable"}[scheme]
		names := []string{"", "", ""}
		if i == 0 {
			names = []string{"a host or port where nothing listens", "a host that does not exist", "a firewall, or a server that hangs"}
		}
		list = append(
			list,
			mistake{names[0], scheme + "://127.0.0.1:1" + path, "nothing listens there: check host and port, and that the server runs: "},
			mistake{names[1], scheme + "://nosuchhost.invalid" + path, "the name of the host is not known: check it: "},
			mistake{names[2], scheme + "://" + silent.Addr().String() + path, "no answer in time: check host, port and firewall: "},
		)
	}
	return list
}

const (
	page  = "../../../docs/errors.md"
	begin = "<!-- made by: go test ./internal/repo/mistakes -update -->\n"
	end   = "<!-- end -->\n"
)

// checkTable holds the table of the page to the mistakes that have a name.
func checkTable(t *testing.T, list []mistake) {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(text), begin)
	_, after, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatalf("%s has no place for the table", page)
	}
	rows := []string{"", "| mistake | what the error says |", "| --- | --- |"}
	for _, m := range list {
		if m.name != "" {
			rows = append(rows, fmt.Sprintf("| %s | `%s` |", m.name, strings.TrimSuffix(m.want, ": ")))
		}
	}
	want := before + begin + strings.Join(rows, "\n") + "\n\n" + end + after
	if *update {
		if err := os.WriteFile(page, []byte(want), 0o600); err != nil {
			t.Fatal(err)
		}
	} else if string(text) != want {
		t.Errorf("the table of %s is not this one:\n%s", page, strings.Join(rows, "\n"))
	}
	if len(rows) < 3+30 {
		t.Errorf("%d mistakes: want thirty", len(rows)-3)
	}
}
