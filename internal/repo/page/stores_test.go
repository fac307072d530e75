package page

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/coordgo/coord"
	_ "github.com/coordgo/coord/backends/all"
	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/internal/testserver"
)

// The page shows what is held and what is left on each store, as far as the store knows it.
func TestStores(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]func(t *testing.T) (url string){
		"redis":     func(t *testing.T) string { return "redis://" + testserver.Redis(t).Addr },
		"etcd":      func(t *testing.T) string { return "etcd://" + testserver.Etcd(t).Addr },
		"zookeeper": func(t *testing.T) string { return "zookeeper://" + testserver.ZooKeeper(t).Addr },
		"memcached": func(t *testing.T) string { return "memcached://" + testserver.Memcached(t).Addr },
		"postgres": func(t *testing.T) string {
			return testserver.PostgresURL("postgres", testserver.Postgres(t).Addr) + "&timeout=5s"
		},
		"file": func(t *testing.T) string { return "file://" + t.TempDir() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, "url: "+start(t)+"\nlimits: {mail: 5/1h}\nserve: {listen: '127.0.0.1:0', drain: 1ms}")
			lock := s.lock("job", coord.HolderName("web-3"))
			s.take("mail", 4)
			texts := []string{"web-3", fmt.Sprint(lock.Token()), "1 of 5", ">Live<"}
			if s.client.Info().Claims.Has(driver.Shared) {
				l, err := s.client.ReadWrite().Read().TryLock(t.Context(), "map", coord.HolderName("reader"))
				if err != nil {
					t.Fatal(err)
				}
				texts = append(texts, "reader", fmt.Sprint(l.Token()))
			}
			page := s.get(t, "/") + s.get(t, "/page/key?key=job") + s.get(t, "/page/key?key=map")
			for _, text := range texts {
				if !strings.Contains(page, text) {
					t.Errorf("no %q on the page:\n%s", text, page)
				}
			}
		})
	}
}

// get is the page at a path, without a browser.
func (s *site) get(t *testing.T, path string) string {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	c := &http.Client{Transport: new(http.Transport)}
	defer c.CloseIdleConnections()
	got, err := c.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer got.Body.Close()
	text, err := io.ReadAll(got.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
