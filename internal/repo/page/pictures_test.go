package page

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"image/png"
	"math/rand/v2"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"

	cdppage "github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/backends/redis"
	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/internal/testserver"
)

var update = flag.Bool("update", false, "take the pictures of docs/serve.md again")

// pictures are those of docs/serve.md.
var pictures = []struct {
	name, path, scheme string
	width, height      int64
}{
	{"page-light", "/", "light", 1100, 1290},
	{"page-dark", "/page/key?key=orders%2F1047", "dark", 1100, 530},
	{"page-phone", "/", "dark", 390, 844},
}

// maxPicture is how many bytes a picture has at most.
const maxPicture = 150_000

func TestPictures(t *testing.T) {
	dir := filepath.Join("..", "..", "..", "docs", "images")
	if *update {
		takePictures(t, dir)
	}
	for _, p := range pictures {
		text, err := os.ReadFile(filepath.Join(dir, p.name+".png"))
		if err != nil {
			t.Fatal(err)
		}
		c, err := png.DecodeConfig(bytes.NewReader(text))
		if err != nil || c.Width != int(p.width) || len(text) > maxPicture {
			t.Errorf("%s: %d pixels wide, %d bytes, %v", p.name, c.Width, len(text), err)
		}
	}
}

const shop = `
url: %s
limits: {supplier: 2000/1m, mail: 100/1h burst=20, search: 50/1s}
rules: [{name: orders, subject: user, limits: [20/1h]}]
serve:
  listen: '127.0.0.1:0'
  drain: 1ms
  page: act
  callers: [{name: night-shift, token: night-shift-token, allow: [{rights: [read, break]}]}]
`

// held is a hold as it was long ago: coord gives its own the time at which they are made.
type held struct {
	key, name string
	asked     time.Duration
	lead      string
	share     driver.Share
}

// takePictures shows a shop on a real server, as it may be at night.
func takePictures(t *testing.T, dir string) {
	at := &url.URL{Scheme: "redis", Host: testserver.Redis(t).Addr}
	store, err := redis.Open(t.Context(), at)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	for _, h := range []held{
		{"backup/nightly", "backup-1", 41 * time.Minute, "", driver.Share{}},
		{"scheduler", "cron-2", 76 * time.Hour, driver.LeaderMark, driver.Share{}},
		{"orders/1047", "web-3", 3 * time.Second, "", driver.Share{}},
		{"orders/1052", "web-1", 1 * time.Second, "", driver.Share{}},
		{"invoices/2026-11", "billing-2", 4 * time.Minute, "", driver.Share{}},
	} {
		var random [16]byte
		for i := range random {
			random[i] = byte(rand.N(256))
		}
		id := driver.FormatID(h.name, 100+rand.N(900), time.Now().Add(-h.asked), random) + h.lead
		if _, err := store.TryLock(t.Context(), h.key, driver.Request{ID: id, TTL: 28 * time.Second}); err != nil {
			t.Fatal(err)
		}
	}
	s := serve(t, fmt.Sprintf(shop, at))
	pool := s.client.Semaphore(5)
	for _, name := range []string{"worker-4", "worker-7"} {
		if _, err := pool.TryLock(t.Context(), "ffmpeg", coord.HolderName(name)); err != nil {
			t.Fatal(err)
		}
	}
	for range 3 {
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			_, _ = s.client.Lock(ctx, "invoices/2026-11", coord.Fair(), coord.HolderName("billing-1"))
		}()
		t.Cleanup(func() { cancel(); <-done })
	}
	s.take("supplier", 1720)
	s.take("mail", 20)
	s.take("search", 9)
	for range 9 {
		s.take("mail", 1)
	}
	for user, n := range map[string]int{"ann": 20, "bob": 13, "cleo": 4} {
		limit := coord.PerHour(20)
		for range n + 1 {
			if _, err := s.client.Allow(t.Context(), "rule/orders/user/"+user, limit); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, p := range pictures {
		b := s.open("/")
		b.theme(p.scheme)
		b.do(chromedp.EmulateViewport(p.width, p.height, chromedp.EmulateMobile)) // whose scroll bars are not seen
		b.signIn("night-shift-token")
		b.visit(s.url + p.path)
		b.until(`document.querySelector("#state .pill").textContent === "Live" && document.querySelector("tbody tr, article")`)
		shot, err := chromedp.Call(b.ctx, cdppage.CaptureScreenshot, cdppage.CaptureScreenshotParams{})
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, p.name+".png"), shot.Data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}
