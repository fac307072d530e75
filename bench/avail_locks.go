package main

import (
	"context"
	"errors"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-zookeeper/zk"
	"github.com/redis/go-redis/v9"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	recipe "go.etcd.io/etcd/client/v3/experimental/recipes"

	"github.com/coordgo/coord"
)

// availLock locks one key for a process that may be frozen or killed at any time.
type availLock interface {
	lock(ctx context.Context, key string) (availHeld, error)
}

type availHeld interface {
	// err is not nil once the lock is known to be lost.
	err() error
	unlock(ctx context.Context) error
}

// availSubject is one library on one store. A lease is as short as the store can do, at least a second.
type availSubject struct {
	store, name string
	ttl         time.Duration
	work        *workload // what it is measured at
	// One of them: open for locks, candidate for leaders.
	open      func(ctx context.Context, s *store, ttl time.Duration) (availLock, error)
	candidate func(ctx context.Context, s *store, ttl time.Duration) (availCandidate, error)
}

// plan is what a seed makes happen to the subject.
func (s availSubject) plan(seed uint64, d time.Duration) []fault {
	if s.candidate != nil {
		return leadPlan(seed, d, s.ttl)
	}
	return faultPlan(seed, d, s.ttl)
}

// testAvailSubjects are those that tests are made with.
var testAvailSubjects []availSubject

func availSubjects() []availSubject {
	return append(testAvailSubjects, []availSubject{
		{"redis", "coord", time.Second, availWorkload, openAvailCoord, nil},
		{"redis", "redislock, 20 ms", time.Second, availWorkload, openAvailRedislock, nil},
		{"etcd", "coord", 2 * time.Second, availWorkload, openAvailCoord, nil},
		{"etcd", "concurrency.Mutex", 2 * time.Second, availWorkload, openAvailMutex, nil},
		{"zookeeper", "coord", 2 * time.Second, availWorkload, openAvailCoord, nil},
		{"zookeeper", "zk.Lock", 2 * time.Second, availWorkload, openAvailZKLock, nil},
		{"redis", "coord", time.Second, leadWorkload, nil, coordCandidate},
		{"etcd", "coord", 2 * time.Second, leadWorkload, nil, coordCandidate},
		{"etcd", "concurrency.Election", 2 * time.Second, leadWorkload, nil, electionCandidate},
		{"zookeeper", "coord", 2 * time.Second, leadWorkload, nil, coordCandidate},
		{"redis", "coord", time.Second, writeWorkload, openAvailWriter, nil},
		{"etcd", "coord", 2 * time.Second, writeWorkload, openAvailWriter, nil},
		{"etcd", "recipe.RWMutex", 2 * time.Second, writeWorkload, openAvailRWMutex, nil},
		{"zookeeper", "coord", 2 * time.Second, writeWorkload, openAvailWriter, nil},
	}...)
}

type availCoord struct {
	coord.Locker // the client, or a view of it
	ttl          time.Duration
}

func openAvailCoord(ctx context.Context, s *store, ttl time.Duration) (availLock, error) {
	url := s.url()
	if s.name == "zookeeper" {
		url += "?session_timeout=" + ttl.String()
	}
	c, err := coord.Open(ctx, url)
	return availCoord{c, ttl}, err
}

// openAvailWriter is the writers' side of a read/write lock.
func openAvailWriter(ctx context.Context, s *store, ttl time.Duration) (availLock, error) {
	l, err := openAvailCoord(ctx, s, ttl)
	if err != nil {
		return nil, err
	}
	return availCoord{l.(availCoord).Locker.(*coord.Client).ReadWrite().Write(), ttl}, nil
}

func (a availCoord) lock(ctx context.Context, key string) (availHeld, error) {
	l, err := a.Lock(ctx, key, coord.TTL(a.ttl))
	return coordHeld{l}, err
}

type coordHeld struct{ *coord.Lock }

func (h coordHeld) err() error                       { return h.Err() }
func (h coordHeld) unlock(ctx context.Context) error { return h.Unlock(ctx) }

type availRedislock struct {
	c   *redislock.Client
	ttl time.Duration
}

func openAvailRedislock(_ context.Context, s *store, ttl time.Duration) (availLock, error) {
	return availRedislock{redislock.New(redis.NewClient(&redis.Options{Addr: s.addr})), ttl}, nil
}

func (a availRedislock) lock(ctx context.Context, key string) (availHeld, error) {
	l, err := a.c.Obtain(ctx, key, a.ttl, &redislock.Options{RetryStrategy: redislock.LinearBackoff(20 * time.Millisecond)})
	return redislockHeld{l, time.Now().Add(a.ttl)}, err
}

// redislockHeld judges its lease by the clock, as a careful user of the library would: the library
// reports no loss. The lease is counted from the return of Obtain, which may have waited before.
type redislockHeld struct {
	l   *redislock.Lock
	end time.Time
}

var errLapsed = errors.New("the lease has lapsed")

func (h redislockHeld) err() error {
	if time.Now().After(h.end) {
		return errLapsed
	}
	return nil
}

func (h redislockHeld) unlock(ctx context.Context) error { return h.l.Release(ctx) }

// availSession is a session of package concurrency of etcd, which is made anew when it has ended.
type availSession struct {
	c       *clientv3.Client
	ttl     time.Duration
	session *concurrency.Session
}

func (a *availSession) live() (*concurrency.Session, error) {
	if a.session != nil {
		select {
		case <-a.session.Done():
			a.session = nil
		default:
			return a.session, nil
		}
	}
	s, err := concurrency.NewSession(a.c, concurrency.WithTTL(int(a.ttl.Seconds())))
	if err == nil {
		a.session = s
	}
	return s, err
}

// availMutex is the lock of package concurrency.
type availMutex struct{ availSession }

func openAvailMutex(_ context.Context, s *store, ttl time.Duration) (availLock, error) {
	c, err := newEtcd(s)
	return &availMutex{availSession{c: c, ttl: ttl}}, err
}

func (a *availMutex) lock(ctx context.Context, key string) (availHeld, error) {
	s, err := a.live()
	if err != nil {
		return nil, err
	}
	m := concurrency.NewMutex(s, key)
	if err := m.Lock(ctx); err != nil {
		return nil, err
	}
	return sessionHeld{s, m.Unlock}, nil
}

type sessionHeld struct {
	s    *concurrency.Session
	free func(context.Context) error
}

func (h sessionHeld) err() error {
	select {
	case <-h.s.Done():
		return errLapsed
	default:
		return nil
	}
}

func (h sessionHeld) unlock(ctx context.Context) error { return h.free(ctx) }

// availRWMutex is the read/write lock of package recipe. It heeds no context.
type availRWMutex struct{ availSession }

func openAvailRWMutex(_ context.Context, s *store, ttl time.Duration) (availLock, error) {
	c, err := newEtcd(s)
	return &availRWMutex{availSession{c: c, ttl: ttl}}, err
}

func (a *availRWMutex) lock(_ context.Context, key string) (availHeld, error) {
	s, err := a.live()
	if err != nil {
		return nil, err
	}
	m := recipe.NewRWMutex(s, key)
	if err := m.Lock(); err != nil {
		return nil, err
	}
	return sessionHeld{s, func(context.Context) error { return m.Unlock() }}, nil
}

// availZKLock is the lock of the client library. It heeds no context and tells no loss but by the
// state of its connection.
type availZKLock struct{ conn *zk.Conn }

func openAvailZKLock(_ context.Context, s *store, ttl time.Duration) (availLock, error) {
	conn, _, err := zk.Connect([]string{s.addr}, ttl, zk.WithLogInfo(false), zk.WithLogger(quiet{}))
	return availZKLock{conn}, err
}

func (a availZKLock) lock(_ context.Context, key string) (availHeld, error) {
	l := zk.NewLock(a.conn, "/"+key, anybody)
	if err := l.Lock(); err != nil {
		return nil, err
	}
	return zkHeld{a.conn, l}, nil
}

type zkHeld struct {
	conn *zk.Conn
	l    *zk.Lock
}

func (h zkHeld) err() error {
	if h.conn.State() != zk.StateHasSession {
		return errLapsed
	}
	return nil
}

func (h zkHeld) unlock(context.Context) error { return h.l.Unlock() }
