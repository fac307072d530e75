package coord

import (
	"fmt"
	"sync"

	"github.com/coordgo/coord/driver"
)

// Token is a fencing token: strictly greater for each later holder of a key.
// It is a positive int64, fits a SQL BIGINT, and is a string in JSON. Tokens
// compare within one key of one store.
type Token = driver.Token

// Guard is the consumer's side of fencing: it stands before a resource and
// refuses a write whose token is older than one that the resource has seen. A
// lock is a lease, so a holder that was frozen may wake up and write after the
// next holder has begun; the Guard stops it.
//
// A Guard remembers in memory, one token per key. It protects what lives in
// this process. A resource that outlives it keeps the token beside its data
// and compares in the same transaction:
//
//	UPDATE t SET v = $1, token = $2 WHERE id = $3 AND token <= $2
//
// The zero Guard is ready. It is safe for concurrent use.
type Guard struct {
	mu   sync.Mutex
	seen map[string]*marks
}

// marks are the greatest tokens that were seen of a key. An exclusive lock has those of a writer.
type marks struct {
	mu          sync.Mutex // held during an access, too
	read, write Token
}

// Check admits token if no greater one was seen for key, and remembers it. A
// stale token is ErrLost; a token that is not positive is ErrInvalid.
//
// Check and the write that it guards are one step only if nothing else gets
// between them: hold your own mutex over both, or use [Guard.Do].
func (g *Guard) Check(key string, token Token) error {
	return g.Do(key, token, func() error { return nil })
}

// Do runs write if token passes Check, before any other Check or Do of the
// key. Those of other keys do not wait for it, so write keeps what several keys share under a mutex of its own.
// A Check or Do of the same key in write never returns.
func (g *Guard) Do(key string, token Token, write func() error) error {
	return g.do(key, token, true, write)
}

// CheckRead admits the token of a reader, of [ReadWrite] or of a semaphore, if no writer with a greater one was seen for
// key, and remembers it beside those of writers. The errors are those of Check.
func (g *Guard) CheckRead(key string, token Token) error {
	return g.do(key, token, false, func() error { return nil })
}

// CheckWrite admits the token of a writer of [ReadWrite] if no greater one was seen for key, of a reader or of a
// writer: a writer that was frozen comes too late once a later reader has been there. It is Check.
func (g *Guard) CheckWrite(key string, token Token) error { return g.Check(key, token) }

func (g *Guard) do(key string, token Token, writes bool, access func() error) error {
	if token <= 0 {
		return &Error{Op: "guard", Key: key, Err: fmt.Errorf("%w: token %d: want a positive one", ErrInvalid, token)}
	}
	seen := g.of(key)
	seen.mu.Lock()
	defer seen.mu.Unlock()
	if token < seen.write || writes && token < seen.read {
		return &Error{Op: "guard", Key: key, Err: fmt.Errorf("%w: token %d is older than %d, which was seen", ErrLost, token, max(seen.read, seen.write))}
	}
	if writes {
		seen.write = token
	} else {
		seen.read = max(seen.read, token)
	}
	return access()
}

// of gives the marks of key.
func (g *Guard) of(key string) *marks {
	g.mu.Lock()
	defer g.mu.Unlock()
	seen := g.seen[key]
	if seen == nil {
		if g.seen == nil {
			g.seen = make(map[string]*marks)
		}
		seen = new(marks)
		g.seen[key] = seen
	}
	return seen
}
