package main

import (
	"context"
	"runtime/debug"
	"slices"
	"time"

	"github.com/coordgo/coord/internal/bench"
)

// subject is one way to lock or to limit that is measured.
type subject struct {
	store, name string
	// module is that of a library, for its version.
	module string
	kind   bench.BarKind
	// locks and limits open a client of its own; nil for what it is not.
	locks  func(ctx context.Context, s *store) (lockClient, error)
	limits func(ctx context.Context, s *store, r bench.Rate) (limitClient, error)
	uses   use
	// shares is what it is measured at as a shared hold, and reads what opens readers beside the writers that locks opens.
	shares sharedUse
	reads  func(ctx context.Context, s *store) (lockClient, error)
	// waits tells how it waits for a lock, strict what its limit promises: for the page.
	waits, limit string
}

// use is what a lock is measured at; the zero value is everything.
type use int

const (
	everywhere  use = iota
	uncontended     // it does not wait
	contended       // it is another's way to wait, or one that does not pay where nobody waits
)

// lockClient is a connection to a store, as each process of an application has one.
type lockClient interface {
	bench.Locker
	Close() error
}

type limitClient interface {
	bench.Limiter
	Close() error
}

// ttl is the lease that all ask for.
const ttl = 30 * time.Second

// subjects are all that are measured.
func subjects() []subject {
	return slices.Concat(coordSubjects(), redisLocks(), redisLimits(), etcdSubjects(), zookeeperSubjects(), memcachedSubjects(), memorySubjects(), testSubjects)
}

// testSubjects are those that tests are made with.
var testSubjects []subject

func subjectNamed(store, name string) (subject, bool) {
	all := append(subjects(), sharedSubjects()...)
	i := slices.IndexFunc(all, func(s subject) bool { return s.store == store && s.name == name })
	if i < 0 {
		return subject{}, false
	}
	return all[i], true
}

// versions are those of the libraries in this program that are measured.
func versions(measured []subject) map[string]string {
	build, ok := debug.ReadBuildInfo()
	found := map[string]string{}
	if !ok {
		return found
	}
	used := map[string]bool{"github.com/redis/go-redis/v9": true, "github.com/bradfitz/gomemcache": true}
	for _, s := range measured {
		used[s.module] = true
	}
	for _, m := range build.Deps {
		if used[m.Path] && m.Replace == nil {
			found[m.Path] = m.Version
		}
	}
	return found
}
