package asynqcoord_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/hibiken/asynq"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/backends/memory"
	"github.com/coordgo/coord/integrations/asynqcoord"
)

// startWorkers serves two tasks of a tenant at once, and a hundred in a minute, over all machines.
func startWorkers(client *coord.Client, queue asynq.RedisConnOpt, handler asynq.Handler) (*asynq.Server, error) {
	tenants := asynqcoord.Tenants{Client: client, Of: tenantOf, AtOnce: 2, Limit: coord.PerMinute(100)}
	server := asynq.NewServer(queue, asynqcoord.Postpone(asynq.Config{Concurrency: 20}))
	return server, server.Start(tenants.Wrap(handler))
}

func tenantOf(task *asynq.Task) string { return task.Headers()["tenant"] }

// A task that is over the limit is postponed, which is no failure.
func ExampleTenants() {
	client, err := coord.New(memory.New())
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()
	tenants := asynqcoord.Tenants{Client: client, Of: tenantOf, AtOnce: 2, Limit: coord.PerHour(1)}
	config := asynqcoord.Postpone(asynq.Config{})
	handler := tenants.Wrap(asynq.HandlerFunc(func(context.Context, *asynq.Task) error { return errors.New("no paper") }))
	task := asynq.NewTaskWithHeaders("print", nil, map[string]string{"tenant": "ann"})
	for range 2 {
		err := handler.ProcessTask(context.Background(), task)
		fmt.Println("a failure:", config.IsFailure(err))
	}
	// Output:
	// a failure: true
	// a failure: false
}

// A program starts its workers so, and shuts them down before it closes the client.
func ExamplePostpone() {
	client, err := coord.Open(context.Background(), "redis://localhost:6379")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()
	server, err := startWorkers(client, asynq.RedisClientOpt{Addr: "localhost:6379"}, asynq.NewServeMux())
	if err != nil {
		fmt.Println(err)
		return
	}
	server.Shutdown()
}
