package page

import (
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/coordgo/coord"
)

// minContrast is what WCAG asks of text.
const minContrast = 4.5

// contrasts are the texts of the page that are hard to read, with their contrast. What is behind a text is the ground of
// the nearest element that has one.
const contrasts = `(() => {
	const rgb = (c) => c.match(/[\d.]+/g).map(Number);
	const light = (c) => {
		const [r, g, b] = c.map((v) => (v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
		return 0.2126 * r + 0.7152 * g + 0.0722 * b;
	};
	const ground = (e) => {
		for (; e; e = e.parentElement) {
			const c = rgb(getComputedStyle(e).backgroundColor);
			if (c.length < 4 || c[3] === 1) return c.slice(0, 3);
			if (c[3] !== 0) throw new Error("a ground that one sees through");
		}
		throw new Error("no ground");
	};
	const poor = [];
	let texts = 0;
	const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
	while (walk.nextNode()) {
		const e = walk.currentNode.parentElement;
		if (!walk.currentNode.data.trim() || !e.checkVisibility() || e.closest("noscript")) continue;
		texts++;
		const [a, b] = [light(rgb(getComputedStyle(e).color).slice(0, 3)), light(ground(e))].sort((a, b) => b - a);
		const contrast = (a + 0.05) / (b + 0.05);
		if (contrast < %v) poor.push(contrast.toFixed(2) + " " + walk.currentNode.data);
	}
	return texts + " texts: " + poor.join("; ");
})()`

// Every text can be read, in the light and in the dark, and a phone shows each page without scrolling to the side.
func TestLook(t *testing.T) {
	t.Parallel()
	s := serve(t, called)
	s.lock(strings.Repeat("a-key-without-any-space/", 42)[:1000], coord.HolderName(strings.Repeat("holder", 10)))
	s.lock("web/1\x1b")
	s.take("mail", 5)
	b := s.open("/")
	look := func(what string) {
		t.Helper()
		for _, scheme := range []string{"light", "dark"} {
			b.theme(scheme)
			got := eval[string](b, fmt.Sprintf(contrasts, minContrast))
			if n, poor, _ := strings.Cut(got, " texts: "); poor != "" || n == "0" {
				t.Errorf("%s, %s: %s", what, scheme, got)
			}
		}
		for _, width := range []int64{320, 390, 768, 1280} {
			b.do(chromedp.EmulateViewport(width, 800))
			if got := eval[int64](b, "document.scrollingElement.scrollWidth"); got > width {
				t.Errorf("%s is %d wide on a screen of %d", what, got, width)
			}
		}
	}
	look("signing in")
	b.signIn("not-the-right-one")
	look("a wrong token")
	b.signIn("night-shift-token")
	b.shows("Live")
	b.shows("used up")
	look("all")
	b.visit(s.url + "/?q=nothing")
	b.shows("No hold matches")
	look("nothing")
	b.visit(s.url)
	b.shows("Live")
	b.follow(click(`#locks a[href*="without"]`))
	b.shows("Lease left")
	look("a key")
	b.follow(click("article .button"))
	b.do(click("summary"))
	look("to break")
	b.follow(click("form button.danger"))
	b.shows("kept taken")
	look("broken")
	b.visit(s.url)
	b.shows("used up")
	b.follow(click("#limits .button"))
	look("to reset")
	b.visit(s.url + "/page/break?key=none&id=x&mode=exclusive")
	look("a failure")
}
