package server

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.uber.org/goleak"

	"github.com/coordgo/coord"
	_ "github.com/coordgo/coord/backends/memory"
	"github.com/coordgo/coord/config"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// kit is a Server and who calls it.
type kit struct {
	t *testing.T
	*Server

	compiling sync.Mutex
	schemas   *jsonschema.Compiler
}

// quiet is for tests that look at no log.
var quiet = slog.New(slog.DiscardHandler)

// start makes a Server of a configuration. It is closed at the end.
func start(t *testing.T, text string) *kit {
	t.Helper()
	if !strings.Contains(text, "url:") {
		text = "url: memory://\n" + text
	}
	cfg, err := config.Parse("coord.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	decisions := new(Decisions)
	client, err := cfg.Open(t.Context(), coord.WithObserver(decisions.Observer()))
	if err != nil {
		t.Fatal(err)
	}
	return startOn(t, client, decisions)
}

// startOn makes a Server on a client, which is closed at the end.
func startOn(t *testing.T, client *config.Client, decisions *Decisions) *kit {
	t.Helper()
	t.Cleanup(func() { _ = client.Close() })
	s, err := New(t.Context(), client, Options{Log: quiet, Decisions: decisions})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.stop)
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(s.openapi))
	if err != nil {
		t.Fatal(err)
	}
	k := &kit{t: t, Server: s, schemas: jsonschema.NewCompiler()}
	if err := k.schemas.AddResource("openapi.json", doc); err != nil {
		t.Fatal(err)
	}
	return k
}

// stop ends what the Server still has at the end of a test.
func (s *Server) stop() {
	s.end()
	s.grpc.Stop()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, h := range s.holds {
		h.timer.Stop()
	}
}

// answer is what a request came to.
type answer struct {
	status int
	body   map[string]any
	header http.Header
}

// code is that of the error; "" if there is none.
func (a answer) code() string {
	e, _ := a.body["error"].(map[string]any)
	code, _ := e["code"].(string)
	return code
}

// left is remaining_ms.
func (a answer) left() time.Duration {
	n, _ := a.body["remaining_ms"].(float64)
	return time.Duration(n) * time.Millisecond
}

func (a answer) text(name string) string { return fmt.Sprint(a.body[name]) }

// post makes a request. What it says, if it is accepted, and its answer are as openapi.json says.
func (k *kit) post(path, body string, edit ...func(*http.Request)) answer {
	k.t.Helper()
	return k.postIn(k.t.Context(), path, body, edit...)
}

func (k *kit) postIn(ctx context.Context, path, body string, edit ...func(*http.Request)) answer {
	k.t.Helper()
	a := k.postUnchecked(ctx, path, body, edit...)
	k.check(path, body, a)
	return a
}

func (k *kit) postUnchecked(ctx context.Context, path, body string, edit ...func(*http.Request)) answer {
	k.t.Helper()
	r := httptest.NewRequestWithContext(ctx, http.MethodPost, path, strings.NewReader(body))
	r.Host = "localhost"
	r.Header.Set("Content-Type", "application/json")
	for _, e := range edit {
		e(r)
	}
	w := httptest.NewRecorder()
	k.ServeHTTP(w, r)
	a := answer{status: w.Code, header: w.Header()}
	if err := json.Unmarshal(w.Body.Bytes(), &a.body); err != nil {
		k.t.Errorf("%s: %s: %v", path, w.Body, err)
	}
	return a
}

// check holds a request and its answer against openapi.json.
func (k *kit) check(path, body string, a answer) {
	k.t.Helper()
	if a.status == http.StatusOK {
		k.valid(path, "requestBody", strings.NewReader(body))
	}
	k.checkAnswer(path, a)
}

func (k *kit) checkAnswer(path string, a answer) {
	k.t.Helper()
	switch {
	case a.status == http.StatusOK:
		k.valid(path, "responses/200", mustJSON(a.body))
	case !strings.HasSuffix(path, "/nothing"):
		k.valid(path, "responses/default", mustJSON(a.body))
	}
}

func mustJSON(v any) io.Reader {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return bytes.NewReader(text)
}

// valid holds a text against the schema of that part of a path.
func (k *kit) valid(path, part string, text io.Reader) {
	k.t.Helper()
	schema := "openapi.json#/paths/" + strings.ReplaceAll(path, "/", "~1") + "/post/" + part + "/content/application~1json/schema"
	k.compiling.Lock()
	defer k.compiling.Unlock()
	compiled, err := k.schemas.Compile(schema)
	if err != nil {
		k.t.Fatal(err)
	}
	v, err := jsonschema.UnmarshalJSON(text)
	if err == nil {
		err = compiled.Validate(v)
	}
	if err != nil {
		k.t.Errorf("%s: %v", schema, err)
	}
}

// want checks the status and the code of an answer.
func (a answer) want(t *testing.T, status int, code string) answer {
	t.Helper()
	if a.status != status || a.code() != code {
		t.Fatalf("%d %v: want %d %q", a.status, a.body, status, code)
	}
	return a
}

func (a answer) ok(t *testing.T) answer { t.Helper(); return a.want(t, http.StatusOK, "") }

func id(a answer) string { return fmt.Sprintf(`{"id":%q}`, a.text("id")) }
