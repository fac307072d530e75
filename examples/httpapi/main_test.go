package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/legacy"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/config"
	"github.com/coordgo/coord/examples/internal/exampletest"
)

func TestMain(m *testing.M) { exampletest.Main(m, main) }

// The same service, the same file but for one line, another store.
func TestFromRedisToEtcd(t *testing.T) {
	text, err := os.ReadFile("coord.yaml")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "coord.yaml")
	for _, store := range []string{"redis", "etcd"} {
		changed := withURL(t, string(text), exampletest.URL(t, store))
		if err := os.WriteFile(file, []byte(changed), 0o600); err != nil {
			t.Fatal(err)
		}
		t.Run(store, func(t *testing.T) { playAgainst(t, file, store) })
	}
}

// withURL replaces the line of the url, and no other.
func withURL(t *testing.T, text, url string) string {
	t.Helper()
	lines, changed := strings.Split(text, "\n"), 0
	for i, line := range lines {
		if strings.HasPrefix(line, "url:") {
			lines[i] = "url: " + url
			changed++
		}
	}
	if changed != 1 {
		t.Fatalf("%d lines name the store", changed)
	}
	return strings.Join(lines, "\n")
}

// playAgainst starts the service, plays the scenario, and interrupts the service.
func playAgainst(t *testing.T, file, store string) {
	cmd := exampletest.Command(t, "--config", file, "--listen", "localhost:0")
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	base, ok := strings.CutSuffix(line, "/ on "+store+"\n")
	if err != nil || !ok {
		t.Fatalf("it says %q, %v, %s", line, err, said.String())
	}
	d := newDocument(t, base)
	s := scenario{base: base, client: &http.Client{Transport: d}, say: func(line string) { t.Log(line) }}
	if err := s.play(t.Context()); err != nil {
		t.Error(err)
	}
	d.complete()
	wantPage(t, base)
	if _, err := s.ask(t.Context(), "POST", "/locks/left?for=1m", "", 201); err != nil {
		t.Error(err)
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("interrupted, it ends with %v: %s", err, said.String())
	}
	http.DefaultClient.CloseIdleConnections()
	wantFree(t, file, "left")
}

// wantFree looks whether the service has given a lock back.
func wantFree(t *testing.T, file, name string) {
	t.Helper()
	client, err := config.Open(t.Context(), file)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if _, err := client.Inspect(t.Context(), coord.Key("lock", name)); !errors.Is(err, coord.ErrNotHeld) {
		t.Errorf("after the service has ended, a lock that a client had: %v", err)
	}
}

// wantPage looks at the page for people: whole, and with nothing from elsewhere.
func wantPage(t *testing.T, base string) {
	t.Helper()
	response, err := http.Get(base + "/")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		t.Fatal(response.Status, err)
	}
	for pattern := range newService(nil).routes() {
		method, path, _ := strings.Cut(pattern, " ")
		if !strings.Contains(string(text), "<b>"+method+"</b>"+path+"<") {
			t.Errorf("the page does not show %s", pattern)
		}
	}
	for _, foreign := range []string{"<script", "<link", "<img", "@import", "src="} {
		if strings.Contains(string(text), foreign) {
			t.Errorf("the page has a %s", foreign)
		}
	}
}

// document compares every answer with the description that the service itself serves.
type document struct {
	t      *testing.T
	doc    *openapi3.T
	router routers.Router
	mu     sync.Mutex
	asked  map[string]bool // operations
}

func newDocument(t *testing.T, base string) *document {
	t.Helper()
	response, err := http.Get(base + "/openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	doc, err := openapi3.NewLoader().LoadFromData(text)
	if err != nil {
		t.Fatal(err)
	}
	if err := doc.Validate(t.Context()); err != nil {
		t.Fatal(err)
	}
	doc.Servers = openapi3.Servers{{URL: base}}
	router, err := legacy.NewRouter(doc)
	if err != nil {
		t.Fatal(err)
	}
	return &document{t: t, doc: doc, router: router, asked: make(map[string]bool)}
}

func (d *document) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(response.Body)
	_ = response.Body.Close()
	response.Body = io.NopCloser(bytes.NewReader(text))
	if err != nil {
		return response, err
	}
	route, params, err := d.router.FindRoute(r)
	if err != nil {
		d.t.Errorf("%s %s is not described: %v", r.Method, r.URL.Path, err)
		return response, nil
	}
	d.mu.Lock()
	d.asked[route.Operation.OperationID] = true
	d.mu.Unlock()
	in := &openapi3filter.RequestValidationInput{Request: r, PathParams: params, Route: route}
	out := &openapi3filter.ResponseValidationInput{RequestValidationInput: in, Status: response.StatusCode, Header: response.Header}
	out.SetBodyBytes(text)
	out.Options = &openapi3filter.Options{IncludeResponseStatus: true}
	if err := openapi3filter.ValidateResponse(r.Context(), out); err != nil {
		d.t.Errorf("%s %s: %v", r.Method, r.URL.Path, err)
	}
	return response, nil
}

// complete: every operation was asked for, and every route is an operation.
func (d *document) complete() {
	d.t.Helper()
	var described []string
	for path, item := range d.doc.Paths.Map() {
		for method, o := range item.Operations() {
			described = append(described, method+" "+path)
			if !d.asked[o.OperationID] {
				d.t.Errorf("the scenario does not ask for %s", o.OperationID)
			}
		}
	}
	for pattern := range newService(nil).routes() {
		if !slices.Contains(described, pattern) {
			d.t.Errorf("%s is not described", pattern)
		}
	}
}

// Any store will do.
func TestTry(t *testing.T) {
	exampletest.On(t, []string{"memory", "file", "zookeeper", "memcached"}, func(t *testing.T, url string) {
		exampletest.Kept(t, "--config", "coord.yaml", "--listen", "localhost:0", "--try", "--url", url)
	})
}

func TestWithoutTheLockChangesAreLost(t *testing.T) {
	exampletest.Broken(t, "--config", "coord.yaml", "--listen", "localhost:0", "--try", "--without-lock")
}

// A request that has begun is answered although the service is told to end; then it ends.
func TestRequestsAreServedToTheirEnd(t *testing.T) {
	l, err := net.Listen("tcp", "localhost:0")
	if err != nil {
		t.Fatal(err)
	}
	began, finish := make(chan bool), make(chan bool)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	served := make(chan error, 1)
	go func() {
		served <- serve(ctx, l, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			close(began)
			<-finish
			w.WriteHeader(http.StatusNoContent)
		}))
	}()
	answered := make(chan error, 1)
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	go func() {
		s := scenario{base: "http://" + l.Addr().String(), client: client}
		_, err := s.ask(t.Context(), "GET", "/", "", http.StatusNoContent)
		answered <- err
	}()
	<-began
	cancel()
	for refused := false; !refused; { // it takes no more connections
		conn, err := net.Dial("tcp", l.Addr().String())
		if refused = err != nil; !refused {
			conn.Close()
		}
	}
	close(finish)
	if err := <-answered; err != nil {
		t.Error(err)
	}
	if err := <-served; err != nil {
		t.Error(err)
	}
}
