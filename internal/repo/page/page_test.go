package page

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/accessibility"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/coordgo/coord"
)

const plain = "url: memory://\nserve: {listen: '127.0.0.1:0', drain: 1ms}\n"

// called has a caller who may do all, and one who may see a part.
const called = `
url: memory://
limits: {mail: 5/1h, other: 9/1s}
serve:
  listen: '127.0.0.1:0'
  drain: 1ms
  page: act
  callers:
    - {name: night, token: night-shift-token, allow: [{rights: [read, break]}]}
    - {name: web, token: web-web-web-web-web, allow: [{prefix: web, rights: [read]}]}
`

// Holds appear and vanish by themselves, and leases run out before one's eyes.
func TestLive(t *testing.T) {
	t.Parallel()
	s := serve(t, plain)
	s.lock("first", coord.NoRenew(), coord.TTL(time.Hour))
	b := s.open("/")
	b.shows("Live")
	b.shows("first")
	left := eval[string](b, `document.querySelector("#locks .ends").textContent`)
	second := s.lock("second", coord.HolderName("web-3"))
	b.shows("web-3")
	b.until(`document.querySelector("#tiles dd").textContent === "2"`)
	row := eval[string](b, `(window.kept = document.querySelector("#locks tbody tr")).id`)
	if err := second.Unlock(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.lacks("web-3")
	b.until(`document.querySelector("#locks .ends").textContent !== "` + left + `"`)
	if !eval[bool](b, `window.kept === document.getElementById("`+row+`")`) {
		t.Error("the row of a hold that goes on was made again")
	}
}

// What is typed filters at once, stays in the address, and works without the script.
func TestFilter(t *testing.T) {
	t.Parallel()
	s := serve(t, plain)
	for i := range 3 {
		s.lock(fmt.Sprintf("orders/%d", i), coord.HolderName(fmt.Sprintf("web-%d", i)))
	}
	b := s.open("/")
	b.shows("orders/2")
	// A browser types no character of a key that a script has taken.
	b.do(chromedp.KeyEvent("/", func(p *input.DispatchKeyEventParams) {
		if p.Type == input.DispatchKeyEventTypeChar {
			p.Type = input.DispatchKeyEventTypeKeyUp
		}
	}))
	b.do(chromedp.KeyEvent("web-1"))
	b.lacks("orders/2")
	b.shows("orders/1")
	if got := eval[string](b, "location.search + document.activeElement.id"); got != "?q=web-1q" {
		t.Errorf("after typing: %q", got)
	}
	s.lock("more", coord.HolderName("web-11")) // while somebody types
	b.shows("web-11")
	b.do(chromedp.KeyEvent("1"))
	b.lacks("orders/1")
	b.shows("more")
	b.do(chromedp.Reload())
	b.shows("more")
	b.lacks("orders/1")

	if _, err := chromedp.Call(b.ctx, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true}); err != nil {
		t.Fatal(err)
	}
	b.visit(s.url)
	b.follow(chromedp.SendKeys(chromedp.CSS("#q"), "orders/2\r"))
	b.has("web-2", "Without JavaScript")
	b.hasNot("web-1")
}

// Who may breaks a hold after a question, and frees a key only with a word that the holder is dead.
func TestBreak(t *testing.T) {
	t.Parallel()
	s := serve(t, called)
	s.lock("web/1", coord.HolderName("web-3"))
	b := s.open("/")
	b.signIn("night-shift-token")
	b.follow(click("#locks a"))
	b.shows("web-3")
	b.follow(click("article .button"))
	b.has("Break this hold?", "in at most")
	b.follow(click("a.button")) // Cancel
	b.lacks("kept taken")
	b.follow(click("article .button"))
	b.follow(click("form button.danger"))
	b.has("The hold is broken.")
	b.shows("kept taken")
	if h, err := s.client.Inspect(t.Context(), "web/1"); err != nil || !h.Released {
		t.Errorf("the hold is %+v, %v", h, err)
	}
	b.follow(click("article .button"))
	b.hasNot("Break the hold") // it is broken
	b.do(click("details button"))
	if got := eval[string](b, "location.pathname + document.querySelector('details :invalid[name]').name"); got != "/page/breakdead" {
		t.Errorf("without the word: %s", got)
	}
	b.do(click("input[name=dead]"))
	b.follow(click("details button"))
	b.has("The key was freed.")
	b.shows("Nobody holds this key.")
	if _, err := s.client.Inspect(t.Context(), "web/1"); !errors.Is(err, coord.ErrNotHeld) {
		t.Errorf("the key is not free: %v", err)
	}
}

// Who may only read a part sees that, and no button.
func TestRights(t *testing.T) {
	t.Parallel()
	s := serve(t, called)
	s.lock("web/1")
	s.lock("secret")
	b := s.open("/page/key?key=web%2F1")
	b.has("Sign in")
	b.signIn("not-the-right-one")
	b.has("No caller of this server has this token.")
	b.signIn("web-web-web-web-web")
	b.shows("web/1") // where it wanted to be
	b.hasNot("Break")
	b.visit(s.url)
	b.shows("web/1")
	b.hasNot("secret", "mail", "Reset")
	b.visit(s.url + "/page/break?key=web%2F1&id=x&mode=exclusive")
	b.has("This did not work")
	if cookies := eval[string](b, "document.cookie"); cookies != "" {
		t.Errorf("a script sees %q", cookies)
	}
	b.visit(s.url)
	b.follow(click(".who button"))
	b.has("Sign in")
}

// Denials are counted before one's eyes, and a reset lets everybody in again.
func TestLimits(t *testing.T) {
	t.Parallel()
	s := serve(t, called)
	s.take("mail", 4)
	b := s.open("/")
	b.signIn("night-shift-token")
	const row = `document.querySelector("#limits tbody tr").innerText`
	b.until(row + `.includes("1 of 5") && ` + row + `.includes("nearly used up")`)
	asking, cancel := context.WithCancel(t.Context())
	asked := make(chan struct{})
	go func() { // somebody is denied for as long as it takes to see it
		defer close(asked)
		for asking.Err() == nil {
			_, _ = s.client.Allow(asking, "mail", coord.PerHour(5))
			time.Sleep(50 * time.Millisecond)
		}
	}()
	stop := sync.OnceFunc(func() { cancel(); <-asked })
	t.Cleanup(stop)
	b.until(row + `.includes("0 of 5") && ` + row + `.includes("used up")`)
	b.until(`Number(document.querySelector("#tiles div:last-child dd").textContent) > 0`)
	stop()
	b.follow(click("#limits .button"))
	b.has("Reset this limit?", "0 of 5")
	b.follow(click("button.danger"))
	b.has("The limit was reset")
	b.until(row + `.includes("5 of 5")`)
}

// What somebody writes into a key or a name is text, wherever it is shown, and shows what it is.
func TestHostile(t *testing.T) {
	t.Parallel()
	s := serve(t, strings.Replace(called, "mail: 5/1h", `"<script>pwned=6</script>": 5/1h`, 1))
	const key = "<img src=x onerror=pwned=1>\u202e<script>pwned=2</script>\x1b'\"`${pwned=3}" // and more of the kind
	s.lock(key, coord.HolderName(`"><svg/onload=pwned=4><a/href="javascript:pwned=5">`))
	s.lock("javascript:pwned=7")
	b := s.open("/")
	b.signIn("night-shift-token")
	b.shows(`onerror=pwned=1>\u202e<script>`)
	b.follow(click(`#locks a[href*="img"]`))
	b.shows("svg/onload")
	b.follow(click("article .button"))
	b.has("onerror=pwned=1", `\x1b`)
	b.follow(click("form button.danger"))
	b.shows("kept taken")
	if wrong := eval[string](b, `typeof pwned + document.querySelectorAll("main img, main svg, main script").length`); wrong != "undefined0" {
		t.Errorf("a key or a name has become more than text: %s", wrong)
	}
}

// All can be reached by keyboard, each with a visible focus.
func TestKeyboard(t *testing.T) {
	t.Parallel()
	s := serve(t, called)
	s.lock("web/1")
	b := s.open("/")
	b.until(`document.activeElement.id === "token"`) // the browser sets the focus a moment after it has loaded the page
	b.do(chromedp.KeyEvent("night-shift-token"))
	b.follow(chromedp.KeyEvent(kb.Enter))
	b.shows("web/1")
	var seen []string
	for len(seen) < 40 {
		b.do(chromedp.KeyEvent(kb.Tab))
		at := eval[string](b, `(() => {
			const e = document.activeElement;
			return e === document.body ? "" : (getComputedStyle(e).outlineStyle === "none" ? "unseen " : "") + (e.innerText || e.id).trim();
		})()`)
		if at == "" {
			break
		}
		seen = append(seen, at)
	}
	want := []string{"Skip to the content", "coord", "Sign out", "q", "Filter", "web/1", "Reset…", "Reset…"}
	if got := strings.Join(seen, "|"); !strings.HasPrefix(got, strings.Join(want, "|")) {
		t.Errorf("Tab leads to %s", got)
	}
	b.do(chromedp.Focus(chromedp.CSS("#locks a")))
	b.follow(chromedp.KeyEvent(kb.Enter))
	b.shows("Lease left")
}

// The store hangs: the page says so, and shows what it knew.
func TestStoreHangs(t *testing.T) {
	t.Parallel()
	s := serve(t, strings.Replace(plain, "memory", "hanging", 1)+"limits: {mail: 5/1h}")
	s.lock("held", coord.NoRenew(), coord.TTL(time.Hour))
	b := s.open("/")
	b.shows("Live")
	b.shows("held")
	hanging.Store(true)
	b.shows("The store has not answered since")
	b.has("held", "No answer")
	hanging.Store(false)
	b.lacks("The store has not answered since")
	b.has("Live")
}

// The server ends: the page says that it hears nothing.
func TestServerEnds(t *testing.T) {
	t.Parallel()
	s := serve(t, plain)
	b := s.open("/")
	b.shows("Live")
	s.end()
	b.shows("This page gets no news from its server.")
}

// Two servers on one machine have sessions of their own.
func TestTwoServers(t *testing.T) {
	t.Parallel()
	one, two := serve(t, called), serve(t, called)
	b := one.open("/")
	b.elsewhere.Store(true)
	b.signIn("night-shift-token")
	b.has("Sign out")
	b.visit(two.url)
	b.signIn("night-shift-token")
	b.has("Sign out")
	b.visit(one.url)
	b.has("Sign out")
}

// A link on another site leads to the page of who has signed in, although the cookie does not come with the link.
func TestLinkFromElsewhere(t *testing.T) {
	t.Parallel()
	s := serve(t, called)
	s.lock("web/1")
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprintf(w, `<link rel=icon href="data:,"><a href="%s/page/key?key=web%%2F1">to the page</a>`, s.url)
	}))
	defer other.Close()
	b := s.open("/")
	b.signIn("night-shift-token")
	b.elsewhere.Store(true)
	b.visit(strings.Replace(other.URL, "127.0.0.1", "localhost", 1))
	b.do(click("a"), chromedp.WaitVisible(chromedp.CSS("article")))
	b.has("Sign out")
}

// Everything that can be used has a name, and the parts of the page are found by what they are.
func TestNames(t *testing.T) {
	t.Parallel()
	s := serve(t, called)
	s.lock("web/1")
	b := s.open("/")
	look := func() {
		t.Helper()
		tree, err := chromedp.Call(b.ctx, accessibility.GetFullAXTree, accessibility.GetFullAXTreeParams{})
		if err != nil {
			t.Fatal(err)
		}
		roles := map[string]int{}
		for _, n := range tree.Nodes {
			if n.Ignored || n.Role == nil {
				continue
			}
			role := text(n.Role)
			roles[role]++
			used := []string{"link", "button", "textbox", "searchbox", "checkbox", "img"}
			if slices.Contains(used, role) && text(n.Name) == "" {
				t.Errorf("%s: a %s without a name", eval[string](b, "location.pathname"), role)
			}
		}
		for _, role := range []string{"banner", "main", "heading"} {
			if roles[role] == 0 {
				t.Errorf("%s has no %s: %v", eval[string](b, "location.pathname"), role, roles)
			}
		}
	}
	look()
	b.signIn("night-shift-token")
	b.shows("web/1")
	look()
	b.follow(click("#locks a"))
	b.shows("Lease left")
	look()
	b.follow(click("article .button"))
	look()
}

func text(v *accessibility.Value) string {
	if v == nil {
		return ""
	}
	return strings.Trim(string(v.Value), `"`)
}
