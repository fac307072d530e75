package main

import (
	"context"
	"runtime/debug"
	"slices"
	"time"

	"github.com/coordgo/coord/internal/bench"
)

// ttl is the lease that all ask for.
const ttl = 30 * time.Second

// kind is the part that a subject plays.
type kind int

const (
	peer  kind = iota
	ours       // what the page is about
	floor      // what all are made of: bare commands
)

// use is what a lock is measured at: the sum of some of these.
type use int

const (
	alone        use = 1 << iota // nobody waits
	contended                    // it waits for others, of its client and of other clients
	crowded                      // it waits for many clients alone
	shared                       // as alone, beside holds that several can have
	saturated                    // holds of one of several permits
	amongReaders                 // a writer beside readers
	sharedWake                   // as the one writer, or of one permit
)

// subject is one way to lock or to limit that is measured.
type subject struct {
	store, name string
	module      string // of a library, for its version
	kind        kind
	use         use
	locks       opener
	reads       opener // of readers beside the writers that locks opens
	limits      func(ctx context.Context, s *store, r bench.Rate) (*limits, error)
	about       string // how it waits, or what the limit promises
}

// opener opens a client of its own at each call.
type opener func(ctx context.Context, s *store) (*locks, error)

// locks is a connection to a store, as each process of an application has one.
type locks struct {
	close func() error
	lock  func(ctx context.Context, key string) (unlock, error)
}

// unlock gives a lock back.
type unlock func(context.Context) error

func (u unlock) Unlock(ctx context.Context) error { return u(ctx) }

func (l *locks) Lock(ctx context.Context, key string) (bench.Held, error) {
	u, err := l.lock(ctx, key)
	if err != nil {
		return nil, err
	}
	return u, nil
}

// try locks a key of its own: what is done once for each client is done.
func (l *locks) try(ctx context.Context, key string) error {
	u, err := l.lock(ctx, key)
	if err != nil {
		return err
	}
	return u(ctx)
}

type limits struct {
	close func() error
	allow func(ctx context.Context, key string) (bool, error)
}

func (l *limits) Allow(ctx context.Context, key string) (bool, error) { return l.allow(ctx, key) }

func nothing() error { return nil }

// subjects are all that are measured.
func subjects() []subject {
	return slices.Concat(coordSubjects(), redisLocks(), redisLimits(), redisShared(), etcdSubjects(), etcdShared(),
		zookeeperSubjects(), memcachedSubjects(), postgresSubjects(), memorySubjects(), testSubjects)
}

// testSubjects are those that tests are made with.
var testSubjects []subject

// versions are those of the libraries in this program that are measured.
func versions() map[string]string {
	found := map[string]string{}
	build, ok := debug.ReadBuildInfo()
	if !ok {
		return found
	}
	used := map[string]bool{"github.com/redis/go-redis/v9": true, "github.com/bradfitz/gomemcache": true, "github.com/jackc/pgx/v5": true}
	for _, s := range subjects() {
		used[s.module] = true
	}
	for _, m := range build.Deps {
		if used[m.Path] && m.Replace == nil {
			found[m.Path] = m.Version
		}
	}
	return found
}
