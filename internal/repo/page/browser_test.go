package page

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"
	"go.uber.org/goleak"

	"github.com/coordgo/coord"
	_ "github.com/coordgo/coord/backends/memory"
	"github.com/coordgo/coord/config"
	"github.com/coordgo/coord/internal/testserver"
	"github.com/coordgo/coord/server"
)

func TestMain(m *testing.M) {
	code := m.Run()
	chromium.end()
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// chromium is the browser of all tests. It starts when the first one needs it.
var chromium browser

type browser struct {
	start sync.Once
	ctx   context.Context
	stops []context.CancelFunc
	err   error
}

// use gives the context of the browser.
func (b *browser) use(t *testing.T) context.Context {
	t.Helper()
	path := testserver.Chromium(t)
	b.start.Do(func() {
		opts := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.Flag("hide-scrollbars", false))
		if os.Getuid() == 0 {
			opts = append(opts, chromedp.NoSandbox) // it has none for root
		}
		ctx, stop := chromedp.NewExecAllocator(context.Background(), opts...)
		b.stops = append(b.stops, stop)
		b.ctx, stop = chromedp.NewContext(ctx)
		b.stops = append(b.stops, stop)
		b.err = chromedp.Do(b.ctx)
	})
	if b.err != nil {
		t.Fatal(b.err)
	}
	return b.ctx
}

func (b *browser) end() {
	if b.ctx != nil {
		_ = chromedp.Cancel(b.ctx)
	}
	for i := len(b.stops) - 1; i >= 0; i-- {
		b.stops[i]()
	}
}

// site is a server with a page.
type site struct {
	t      *testing.T
	client *config.Client
	url    string
	end    func() // also before the end of the test
}

// serve starts one with a configuration.
func serve(t *testing.T, text string) *site {
	t.Helper()
	cfg, err := config.Parse("coord.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	decisions := new(server.Decisions)
	client, err := cfg.Open(t.Context(), coord.WithObserver(decisions.Observer()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	s, err := server.New(t.Context(), client, server.Options{Log: slog.New(slog.DiscardHandler), Decisions: decisions})
	if err != nil {
		t.Fatal(err)
	}
	l, err := s.Listen(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- s.Serve(ctx, l) }()
	end := sync.OnceFunc(func() {
		cancel()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(end)
	return &site{t, client, "http://" + l.Addr().String(), end}
}

// lock holds a key until the test ends.
func (s *site) lock(key string, opts ...coord.LockOption) *coord.Lock {
	s.t.Helper()
	l, err := s.client.TryLock(s.t.Context(), key, opts...)
	if err != nil {
		s.t.Fatal(err)
	}
	return l
}

// take takes permits of a limit of the configuration.
func (s *site) take(name string, n int) {
	s.t.Helper()
	limit, err := s.client.Limit(name)
	if err != nil {
		s.t.Fatal(err)
	}
	if _, err := s.client.AllowN(s.t.Context(), name, limit, n); err != nil {
		s.t.Fatal(err)
	}
}

// tab is a window of a browser of its own: no cookie of another one is in it.
type tab struct {
	*testing.T
	ctx  context.Context
	site *site

	elsewhere atomic.Bool // it may also ask other servers

	mu   sync.Mutex
	seen []string // what went wrong in it
}

// open looks at a path.
func (s *site) open(path string) *tab {
	s.t.Helper()
	b := &tab{T: s.t, site: s}
	b.tab()
	b.visit(s.url + path)
	return b
}

// tab makes it.
func (b *tab) tab() {
	ctx, stop := chromedp.NewContext(chromium.use(b.T), chromedp.WithNewBrowserContext(), chromedp.WithListener(b.hear))
	b.Cleanup(stop)
	bounded, cancel := context.WithTimeout(ctx, 5*time.Minute) // much longer than a machine under load is late
	b.Cleanup(cancel)
	b.ctx = bounded
	b.Cleanup(func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		for _, wrong := range b.seen {
			b.Error(wrong)
		}
	})
	messages := chromedp.Console(b.ctx)
	go func() {
		for m, err := range messages {
			if err != nil {
				return
			}
			if m.Source != "network" && m.Type != chromedp.ConsoleDebug && m.Type != chromedp.ConsoleInfo {
				b.note(fmt.Sprintf("the console says: %s %s", m.Type, m.Text))
			}
		}
	}()
}

func (b *tab) note(wrong string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.seen = append(b.seen, wrong)
}

// hear sees to it that the page asks nobody but its server.
func (b *tab) hear(event any) {
	e, ok := event.(*network.EventRequestWillBeSent)
	if !ok || strings.HasPrefix(e.Request.URL, b.site.url) || b.elsewhere.Load() {
		return
	}
	b.note("the page asks for " + e.Request.URL)
}

// do takes steps.
func (b *tab) do(steps ...chromedp.Action[chromedp.Void]) {
	b.Helper()
	if err := chromedp.Do(b.ctx, steps...); err != nil {
		b.Fatal(err)
	}
}

// visit goes to an address, and follow to where a step leads. They wait until the page has loaded.
func (b *tab) visit(url string) {
	b.Helper()
	b.do(chromedp.Navigate(url))
}

func (b *tab) follow(steps ...chromedp.Action[chromedp.Void]) {
	b.Helper()
	if _, err := chromedp.RunResponse(b.ctx, steps...); err != nil {
		b.Fatal(err)
	}
}

func click(css string) chromedp.Action[chromedp.Void] { return chromedp.Click(chromedp.CSS(css)) }

// eval is the value of an expression of the page.
func eval[T any](b *tab, expression string) T {
	b.Helper()
	v, err := chromedp.Run(b.ctx, chromedp.Evaluate[T](expression))
	if err != nil {
		b.Fatalf("%s: %v", expression, err)
	}
	return v
}

// until waits until something is so on the page.
func (b *tab) until(expression string) {
	b.Helper()
	const script = `new Promise((done) => { const look = () => ((%s) ? done(true) : setTimeout(look, 20)); look(); })`
	_, err := chromedp.Run(b.ctx, chromedp.Evaluate[bool](fmt.Sprintf(script, expression), chromedp.EvalAwaitPromise))
	if err != nil {
		text, _ := chromedp.Run(b.ctx, chromedp.Evaluate[string]("document.body.innerText"))
		b.Fatalf("%s: %v; the page says\n%s", expression, err, text)
	}
}

// shows waits until a text is on the page, and lacks until it is not.
func (b *tab) shows(text string) {
	b.Helper()
	b.until(fmt.Sprintf("document.body.innerText.includes(%q)", text))
}

func (b *tab) lacks(text string) {
	b.Helper()
	b.until(fmt.Sprintf("!document.body.innerText.includes(%q)", text))
}

// has and hasNot are shows and lacks of a page that has loaded whole.
func (b *tab) has(texts ...string) {
	b.Helper()
	page := b.text()
	for _, text := range texts {
		if !strings.Contains(page, text) {
			b.Errorf("no %q on the page, which says\n%s", text, page)
		}
	}
}

func (b *tab) hasNot(texts ...string) {
	b.Helper()
	page := b.text()
	for _, text := range texts {
		if strings.Contains(page, text) {
			b.Errorf("%q on the page, which says\n%s", text, page)
		}
	}
}

func (b *tab) text() string {
	b.Helper()
	text, err := chromedp.Run(b.ctx, chromedp.Text(chromedp.CSS("body")))
	if err != nil {
		b.Fatal(err)
	}
	return text
}

// signIn fills in the form.
func (b *tab) signIn(token string) {
	b.Helper()
	b.follow(chromedp.SendKeys(chromedp.CSS("#token"), token+"\r"))
}

// theme is the scheme that somebody has chosen, light or dark.
func (b *tab) theme(scheme string) {
	b.Helper()
	_, err := chromedp.Call(b.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
	})
	if err != nil {
		b.Fatal(err)
	}
}
