package gocroncoord_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-co-op/gocron/v2"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/backends/memory"
	"github.com/coordgo/coord/integrations/gocroncoord"
)

// newScheduler gives each run of a job to one process.
func newScheduler(client *coord.Client) (gocron.Scheduler, error) {
	locker := gocroncoord.Locker{Client: client, Options: []coord.LockOption{coord.MinHold(30 * time.Second)}}
	return gocron.NewScheduler(gocron.WithDistributedLocker(locker))
}

// backUp runs a job that stops when its lock is lost. s has no Locker.
func backUp(s gocron.Scheduler, client *coord.Client, dump func(context.Context) error) error {
	job := gocroncoord.Guarded(client, "backup", dump, coord.MinHold(30*time.Second))
	_, err := s.NewJob(gocron.DurationJob(24*time.Hour), gocron.NewTask(job))
	return err
}

func ExampleLocker() {
	client, err := coord.New(memory.New())
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()
	s, err := newScheduler(client)
	if err != nil {
		fmt.Println(err)
		return
	}
	job := gocron.NewTask(func() { fmt.Println("the report is sent") })
	_, err = s.NewJob(gocron.DurationJob(time.Hour), job, gocron.WithName("report"))
	fmt.Println(err)
	s.Start()
	fmt.Println(s.Shutdown())
	// Output:
	// <nil>
	// <nil>
}

func ExampleGuarded() {
	client, err := coord.New(memory.New())
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()
	s, err := gocron.NewScheduler()
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(backUp(s, client, func(ctx context.Context) error { return ctx.Err() }))
	fmt.Println(s.Shutdown())
	// Output:
	// <nil>
	// <nil>
}

// One process runs all jobs: that which leads.
func ExampleElector() {
	client, err := coord.New(memory.New())
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()

	var elector gocroncoord.Elector
	s, err := gocron.NewScheduler(gocron.WithDistributedElector(&elector))
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, resign := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- elector.Campaign(ctx, client, "scheduler") }()
	s.Start()

	fmt.Println(s.Shutdown())
	resign()
	fmt.Println(errors.Is(<-ended, context.Canceled))
	// Output:
	// <nil>
	// true
}
