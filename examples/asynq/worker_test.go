package asynq

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"go.uber.org/goleak"

	"github.com/coordgo/coord"
	_ "github.com/coordgo/coord/backends/redis"
	"github.com/coordgo/coord/internal/testserver"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// served counts tasks of each tenant: those that run now, and all.
type served struct {
	mu          sync.Mutex
	active, all map[string]int
	done        chan string
}

func (s *served) begin(t *testing.T, tenant string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.active[tenant]++
	s.all[tenant]++
	if s.active[tenant] > 1 {
		t.Errorf("two tasks of %s at once", tenant)
	}
}

func (s *served) end(tenant string) {
	s.mu.Lock()
	s.active[tenant]--
	s.mu.Unlock()
	s.done <- tenant
}

// Two processes serve the tasks of two tenants. One task of a tenant is served at a time, two in an hour, and the
// others wait in the queue and are no failures.
func TestTenants(t *testing.T) {
	addr := testserver.Redis(t).Addr
	queue := asynq.RedisClientOpt{Addr: addr}
	s := &served{active: make(map[string]int), all: make(map[string]int), done: make(chan string, 100)}
	refused := map[string]chan bool{"ann": make(chan bool, 10), "bob": make(chan bool, 10)}
	observer := coord.Observer{Refused: func(_ context.Context, e coord.Refused) {
		for tenant, c := range refused {
			if e.Key == coord.Key("tenant", tenant) {
				select {
				case c <- true:
				default:
				}
			}
		}
	}}
	handler := asynq.HandlerFunc(func(ctx context.Context, task *asynq.Task) error {
		tenant := string(task.Payload())
		s.begin(t, tenant)
		defer s.end(tenant)
		select {
		case <-refused[tenant]: // another task of the tenant came meanwhile
		case <-ctx.Done():
			t.Error(context.Cause(ctx))
		}
		return nil
	})

	tasks := asynq.NewClient(queue)
	defer tasks.Close()
	for range 4 {
		for tenant := range refused {
			if _, err := tasks.Enqueue(asynq.NewTask("report", []byte(tenant)), asynq.MaxRetry(1), asynq.Timeout(time.Minute)); err != nil {
				t.Fatal(err)
			}
		}
	}
	for range 2 {
		client, err := coord.Open(t.Context(), "redis://"+addr, coord.WithObserver(observer))
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		tenants := Tenants{
			Client: client, Of: func(task *asynq.Task) string { return string(task.Payload()) },
			Limit: coord.PerHour(2), Busy: 10 * time.Millisecond,
		}
		server := asynq.NewServer(queue, Postpone(asynq.Config{
			Concurrency: 4, LogLevel: asynq.FatalLevel, DelayedTaskCheckInterval: 50 * time.Millisecond, TaskCheckInterval: 10 * time.Millisecond,
		}))
		if err := server.Start(tenants.Wrap(handler)); err != nil {
			t.Fatal(err)
		}
		defer server.Shutdown()
	}
	for range 4 {
		select {
		case <-s.done:
		case <-time.After(time.Minute):
			t.Fatalf("served in a minute: %v", s.all)
		}
	}
	later := postponedTasks(t, queue, 4)
	for _, task := range later {
		if task.Retried != 0 {
			t.Errorf("a postponed task counts as %d retries: %s", task.Retried, task.LastErr)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all["ann"] != 2 || s.all["bob"] != 2 {
		t.Errorf("served: %v, want two of each", s.all)
	}
}

// postponedTasks waits until so many tasks have been postponed by the limit.
func postponedTasks(t *testing.T, queue asynq.RedisConnOpt, n int) (later []*asynq.TaskInfo) {
	t.Helper()
	inspector := asynq.NewInspector(queue)
	defer inspector.Close()
	for deadline := time.Now().Add(time.Minute); ; {
		tasks, err := inspector.ListRetryTasks("default")
		if err != nil {
			t.Fatal(err)
		}
		later = nil
		for _, task := range tasks {
			if time.Until(task.NextProcessAt) > 30*time.Minute {
				later = append(later, task)
			}
		}
		if len(later) == n {
			return later
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d of %d tasks are postponed: want %d", len(later), len(tasks), n)
		}
	}
}
