package postgres

import (
	"context"
	"crypto/rand"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	// proofWithin is how long the listener waits for the notification by which it proves that it hears.
	proofWithin = 2 * time.Second
	// listenAgain is the pause before another attempt.
	listenAgain = time.Second
	// silence is after how long without a notification the listener proves that it hears.
	silence = 30 * time.Second
)

// listener has a connection of its own for notifications, from the first waiter on. Behind a pooler that gives each
// transaction another session it hears nothing: then waiters poll.
type listener struct {
	b *backend

	mu      sync.Mutex
	started bool
	up      bool
	waiters map[string]map[*waiter]bool // by keyHash
}

// waiter is a call that waits for a key.
type waiter struct {
	hash, id string
	wake     chan struct{} // has a value when it shall ask
}

func (l *listener) join(key, id string) *waiter {
	w := &waiter{hash: keyHash(key), id: id, wake: make(chan struct{}, 1)}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.waiters == nil {
		l.waiters = make(map[string]map[*waiter]bool)
	}
	if l.waiters[w.hash] == nil {
		l.waiters[w.hash] = make(map[*waiter]bool)
	}
	l.waiters[w.hash][w] = true
	if !l.started && l.b.enter() {
		l.started = true
		go l.listen()
	}
	return w
}

func (l *listener) leave(w *waiter) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if delete(l.waiters[w.hash], w); len(l.waiters[w.hash]) == 0 {
		delete(l.waiters, w.hash)
	}
}

func (l *listener) isUp() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.up
}

// setUp has all waiters ask when notifications begin to come: some may have been missed.
func (l *listener) setUp(up bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if up && !l.up {
		for _, same := range l.waiters {
			for w := range same {
				w.signal()
			}
		}
	}
	l.up = up
}

// heard wakes whom a notification is for: the hash of a key, and the id of the first waiter.
func (l *listener) heard(payload string) {
	hash, id, _ := strings.Cut(payload, " ")
	l.mu.Lock()
	defer l.mu.Unlock()
	for w := range l.waiters[hash] {
		if w.id == id {
			w.signal()
		}
	}
}

func (w *waiter) signal() {
	select {
	case w.wake <- struct{}{}:
	default: // it will ask anyway
	}
}

// listen keeps a connection that hears, until the backend is closed.
func (l *listener) listen() {
	defer l.b.calls.Done()
	for l.b.life.Err() == nil {
		_ = l.session(l.b.life) // whatever ended it, waiters poll until there is another one
		l.setUp(false)
		select {
		case <-time.After(listenAgain):
		case <-l.b.life.Done():
		}
	}
}

// session connects, and handles notifications until the connection fails or hears nothing.
func (l *listener) session(ctx context.Context) error {
	pool := l.b.pool.Config()
	config := pool.ConnConfig
	config.OnNotification = nil // WaitForNotification is to have them
	if pool.BeforeConnect != nil {
		if err := pool.BeforeConnect(ctx, config); err != nil {
			return err
		}
	}
	connecting, cancel := context.WithTimeout(ctx, maxTimeout)
	defer cancel()
	c, err := pgx.ConnectConfig(connecting, config)
	if err != nil {
		return err
	}
	defer l.hangUp(c)
	if _, err := c.Exec(connecting, "LISTEN "+l.b.channel, pgx.QueryExecModeSimpleProtocol); err != nil {
		return err
	}
	for {
		if err := l.prove(ctx, c); err != nil {
			return err
		}
		l.setUp(true)
		if err := l.receive(ctx, c, silence, ""); !errors.Is(err, errSilent) {
			return err
		}
	}
}

// hangUp closes the connection, and waits until nothing of it is left.
func (l *listener) hangUp(c *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.Background(), proofWithin)
	defer cancel()
	_ = c.Close(ctx)
	select {
	case <-c.PgConn().CleanupDone():
	case <-ctx.Done():
	}
}

var errSilent = errors.New("postgres: no notification")

// prove sends a notification through the pool, and waits until it comes.
func (l *listener) prove(ctx context.Context, c *pgx.Conn) error {
	word := rand.Text()
	_, err := run(ctx, l.b, func(ctx context.Context, c conn) (int64, error) {
		return c.count(ctx, "SELECT pg_notify($1, $2)", l.b.channel, word)
	})
	if err != nil {
		return err
	}
	return l.receive(ctx, c, proofWithin, word)
}

// receive handles notifications until word comes, or nothing has come for so long.
func (l *listener) receive(ctx context.Context, c *pgx.Conn, most time.Duration, word string) error {
	for {
		bound, cancel := context.WithTimeout(ctx, most)
		n, err := c.WaitForNotification(bound)
		cancel()
		switch {
		case err != nil && bound.Err() != nil && ctx.Err() == nil:
			return errSilent
		case err != nil:
			return err
		case word != "" && n.Payload == word:
			return nil
		}
		l.heard(n.Payload)
	}
}
