package asynqcoord

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"go.uber.org/goleak"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/backends/memory"
	"github.com/coordgo/coord/coordtest"
	"github.com/coordgo/coord/internal/testserver"
	"github.com/coordgo/coord/observe"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// served counts tasks of each tenant: those that run now, and all.
type served struct {
	mu          sync.Mutex
	active, all map[string]int
	both        map[string]chan bool // closed once so many run as may at once
	done        chan string
}

func (s *served) begin(t *testing.T, tenant string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.active[tenant]++
	s.all[tenant]++
	switch n := s.active[tenant]; {
	case n > atOnce:
		t.Errorf("%d tasks of %s at once", n, tenant)
	case n == atOnce && s.all[tenant] == atOnce:
		close(s.both[tenant])
	}
}

func (s *served) end(tenant string) {
	s.mu.Lock()
	s.active[tenant]--
	s.mu.Unlock()
	s.done <- tenant
}

const atOnce = 2

// Two processes serve the tasks of two tenants. Two tasks of a tenant are served at once, four in an hour, and the
// others wait in the queue and are no failures.
func TestTenants(t *testing.T) {
	queue := asynq.RedisClientOpt{Addr: testserver.Redis(t).Addr}
	store := memory.NewStore()
	both := map[string]chan bool{"ann": make(chan bool), "bob": make(chan bool)}
	s := &served{active: make(map[string]int), all: make(map[string]int), both: both, done: make(chan string, 100)}
	refused := map[string]chan bool{"ann": make(chan bool), "bob": make(chan bool)} // closed by the first refusal
	first := map[string]func(){}
	for tenant, c := range refused {
		first[coord.Key("tenant", tenant)] = sync.OnceFunc(func() { close(c) })
	}
	observer := observe.Observer{Refused: func(_ context.Context, e observe.Refused) { first[e.Key]() }}
	handler := asynq.HandlerFunc(func(ctx context.Context, task *asynq.Task) error {
		tenant := string(task.Payload())
		s.begin(t, tenant)
		defer s.end(tenant)
		for _, seen := range []<-chan bool{both[tenant], refused[tenant]} {
			select {
			case <-seen:
			case <-ctx.Done():
				t.Error(context.Cause(ctx))
			}
		}
		return nil
	})

	tasks := asynq.NewClient(queue)
	defer tasks.Close()
	for range 6 {
		for tenant := range refused {
			if _, err := tasks.Enqueue(asynq.NewTask("report", []byte(tenant)), asynq.MaxRetry(1), asynq.Timeout(time.Minute)); err != nil {
				t.Fatal(err)
			}
		}
	}
	for range 2 {
		tenants := Tenants{
			Client: coordtest.NewOn(t, store, coord.WithObserver(observer)).Client, Of: tenantOf,
			AtOnce: atOnce, Limit: coord.PerHour(4), Busy: 10 * time.Millisecond,
		}
		server := asynq.NewServer(queue, Postpone(asynq.Config{
			Concurrency: 4, LogLevel: asynq.FatalLevel, DelayedTaskCheckInterval: 50 * time.Millisecond, TaskCheckInterval: 10 * time.Millisecond,
		}))
		if err := server.Start(tenants.Wrap(handler)); err != nil {
			t.Fatal(err)
		}
		defer server.Shutdown()
	}
	for range 8 {
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
	if s.all["ann"] != 4 || s.all["bob"] != 4 {
		t.Errorf("served: %v, want four of each", s.all)
	}
}

func tenantOf(task *asynq.Task) string { return string(task.Payload()) }

// When the permit of a task is lost, its context ends, and its error is the loss, which is a failure.
func TestLoss(t *testing.T) {
	client := coordtest.New(t)
	tenants := Tenants{Client: client.Client, Of: tenantOf, AtOnce: 1, Limit: coord.PerHour(1)}
	handler := tenants.Wrap(asynq.HandlerFunc(func(ctx context.Context, _ *asynq.Task) error {
		client.Lose("tenant/ann")
		<-ctx.Done()
		return nil
	}))
	err := handler.ProcessTask(t.Context(), asynq.NewTask("report", []byte("ann")))
	if !errors.Is(err, coord.ErrLost) || !Postpone(asynq.Config{}).IsFailure(err) {
		t.Errorf("%v: want a loss, which is a failure", err)
	}
}

// Postpone asks what the configuration has had about errors of other kinds.
func TestPostponeKeepsTheConfiguration(t *testing.T) {
	harmless, failed, waits := errors.New("harmless"), errors.New("failed"), error(&postponed{time.Hour})
	own := Postpone(asynq.Config{
		IsFailure:      func(err error) bool { return !errors.Is(err, harmless) },
		RetryDelayFunc: func(int, error, *asynq.Task) time.Duration { return time.Minute },
	})
	for err, want := range map[error]bool{harmless: false, failed: true, waits: false} {
		if got := own.IsFailure(err); got != want {
			t.Errorf("%v is a failure: %v", err, got)
		}
	}
	if d := own.RetryDelayFunc(1, failed, nil); d != time.Minute {
		t.Errorf("another error is tried again after %v", d)
	}
	if d := own.RetryDelayFunc(1, waits, nil); d != time.Hour {
		t.Errorf("a postponed task is served after %v", d)
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
