package conformance

import (
	"slices"
	"strings"
	"time"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/driver"
)

func keyCases() []Case {
	return []Case{
		{
			ID: "LOCK-80", Name: "keys-never-collide", Clause: "L10", run: keysApart,
			Why:    "a key that is cut, folded, split or escaped carelessly shares its state with another (etcd's a/ ranges over a/b)",
			Remedy: "encode keys injectively: escape what the store's names cannot have, change no case, normalise nothing",
		}, {
			ID: "LOCK-81", Name: "bad-keys-are-refused", Clause: "L10", run: badKeys,
			Why:    "an empty key, or one that is silently cut, locks something else than was meant",
			Remedy: "take every valid key of 1024 bytes and a prefix, by hashing long ones if need be",
		}, {
			ID: "LOCK-82", Name: "prefixes-keep-apart", Clause: "L10", run: prefixes,
			Why:    "two applications on one store use the same names",
			Remedy: "take the key as it comes: the prefix is part of it",
		},
	}
}

// nasty are keys that have been confused with one another on some store. A driver takes any bytes: NUL is
// what package coord uses itself.
func nasty() []string {
	list := []string{
		"a", "ab", "a/b", "a/", "/a", "a//b", "a/b/", "A", "aB", "Ab", "a b", " a", "a ", "a\tb", "a\nb", "a\r\nb", "a\x00b",
		"a%2Fb", "a%2fb", "a%b", "a%", "a:b", "a::b", "a.b", "a..b", "..", "a/../b", "a\\b", "{a}", "{a}b", "a{b}", "}{", "{}", "[a]", "a*", "a?", "*",
		"é", "e\u0301", "É", "日本", "日", "🔒", "🔓", "ß", "ss", "\u200b", "\u202ea", "a'b", "a\"b", "a;b", "a|b", "a$b", "a`b", "#a", "a=b", "a&b", "~a", "a+b", "-a", "_a", "1", "01", "user1", "user10",
	}
	long := strings.Repeat("x", 900)
	return append(list, long+"1", long+"2", long)
}

// nastyKeys are nasty keys of this run, as long as the store takes.
func (e *env) nastyKeys() (keys []string) {
	tag := e.r.report.Run
	for _, n := range nasty() {
		keys = append(keys, n+tag, "c/"+tag+"/"+n)
	}
	return slices.DeleteFunc(keys, e.tooLong)
}

// tooLong reports whether the store takes no key of that length.
func (e *env) tooLong(key string) bool { return e.info.MaxKey > 0 && len(key) > e.info.MaxKey }

func keysApart(e *env) {
	a, b := e.open(), e.open()
	type hold struct {
		key string
		driver.Request
	}
	var holds []hold
	for _, key := range e.nastyKeys() {
		h := hold{key, e.req(e.long)}
		if _, err := a.TryLock(e.within(soon), key, h.Request); err != nil {
			e.Errorf("TryLock of %q beside other keys: saw %v, want a grant: it collides", key, err)
			continue
		}
		holds = append(holds, h)
	}
	for i, h := range holds {
		e.end(a, h.key, h.ID, "Unlock of "+h.key)
		e.free(b, h.key, 0, "unlocked")
		for _, other := range holds[i+1 : min(i+3, len(holds))] {
			e.refused(b, other.key, "after the Unlock of "+h.key)
		}
	}
}

func badKeys(e *env) {
	c := e.client()
	limit := coord.PerMinute(10)
	for what, key := range map[string]string{
		"the empty key": "", "a key of 1025 bytes": strings.Repeat("k", 1025), "a key that is not UTF-8": "a\xffb",
		"a key with a NUL byte": "a\x00b",
	} {
		_, err := c.TryLock(e.ctx, key)
		e.wantError(err, "TryLock of "+what, coord.ErrInvalid)
		_, err = c.Lock(e.ctx, key)
		e.wantError(err, "Lock of "+what, coord.ErrInvalid)
		_, err = c.Allow(e.ctx, key, limit)
		e.wantError(err, "Allow of "+what, coord.ErrInvalid)
	}
	longest := e.r.report.Run + strings.Repeat("é", 512)
	longest = longest[:1024-1024%2-len(e.r.report.Run)%2]
	if most := e.info.MaxKey; most == 0 || most-2 >= len(longest) { // coord keeps two bytes
		l := e.lock(c, longest)
		e.gaveBack(l.Unlock(e.ctx), "Unlock of the longest key")
	}
}

func prefixes(e *env) {
	x, y := e.client(coord.WithPrefix("x/")), e.client(coord.WithPrefix("y/"))
	key := e.key("k")
	a := e.lock(x, key, coord.TTL(e.long))
	b := e.lock(y, key, coord.TTL(e.long))
	_, err := e.client(coord.WithPrefix("x/")).TryLock(e.ctx, key)
	e.wantError(err, "TryLock of the same key under the same prefix", coord.ErrLocked)
	_, err = e.client().TryLock(e.ctx, "x/"+key)
	e.wantError(err, "TryLock of the whole key without a prefix", coord.ErrLocked)
	e.gaveBack(a.Unlock(e.ctx), "Unlock under one prefix")
	e.noError(b.Err(), "Err under the other prefix")
	e.gaveBack(b.Unlock(e.ctx), "Unlock under the other prefix")
	e.free(e.open(), "x/"+key, time.Second, "unlocked")
}
