package conformance_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/backends/memory"
	"github.com/coordgo/coord/conformance"
	"github.com/coordgo/coord/driver"
)

// inMemory is a harness without hooks.
func inMemory() conformance.Harness {
	store := memory.NewStore()
	return conformance.Harness{
		Open:   func(conformance.TB) driver.Backend { return store.Open() },
		Claims: memory.Claims,
	}
}

// only selects one case.
func only(id string) func(conformance.Case) bool {
	return func(c conformance.Case) bool { return c.ID == id }
}

// The suite runs outside go test, too: here one case of it.
func ExampleSuite() {
	suite := conformance.Suite{Harness: inMemory(), Only: only("CORE-01"), Seed: 1}
	report, err := suite.Run(context.Background())
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(report.Failed(), report.Count(conformance.Pass), report.Selection.Partial)
	// Output: false 1 true
}

// In a test, a part of the suite: here the cases that are not slow.
func ExampleSuite_Test() {
	test := func(t *testing.T) {
		suite := conformance.Suite{Harness: inMemory(), Only: func(c conformance.Case) bool { return !c.Slow }}
		suite.Test(t)
	}
	_ = test // func TestConformance(t *testing.T)
}

// A harness opens clients of one store; what else it can do to the store proves more.
func ExampleHarness() {
	store := memory.NewStore()
	h := conformance.Harness{
		Open:   func(conformance.TB) driver.Backend { return store.Open() },
		Claims: memory.Claims,
	}
	fmt.Println(h.Open(nil).Info().Name, h.Claims.Has(driver.ScopeProcess))
	// Output: memory true
}

// Hooks of its own come to those that a proxy has.
func ExampleFaults() {
	faults := conformance.TCPFaults("127.0.0.1:6379", func(tb conformance.TB, addr string) driver.Backend {
		tb.Fatalf("open a client of the store at %s here", addr)
		return nil
	})
	faults.Kill = func(tb conformance.TB) { tb.Logf("kill the server here") }
	faults.Restart = func(tb conformance.TB) { tb.Logf("start it again") }
	fmt.Println(faults.Link != nil, faults.Wipe != nil)
	// Output: true false
}

// Each case has a number that stays, a clause that it proves, a reason and a remedy.
func ExampleCase() {
	for _, c := range conformance.Cases() {
		if c.ID == "CORE-01" {
			fmt.Println(c.FullName(), c.Clause, c.Why != "", c.Remedy != "")
		}
	}
	// Output: CORE-01/info-and-claims-agree C1 true true
}

// What a program does with the suite: run it, tell of it, write reports.
func ExampleCommand() {
	var told strings.Builder
	command := conformance.Command{Suite: conformance.Suite{Harness: inMemory(), Only: only("CORE-01")}, Out: &told}
	report, err := command.Run(context.Background())
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(report.Failed(), told.Len() > 0)
	// Output: false true
}

// What an adapter knowingly does not keep is said, with the reason. Here it does keep it, and that is a failure too.
func ExampleDeviation() {
	harness := inMemory()
	harness.Deviations = []conformance.Deviation{{Case: "CORE-01", Reason: "the claims change from day to day"}}
	suite := conformance.Suite{Harness: harness, Only: only("CORE-01")}
	report, err := suite.Run(context.Background())
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(report.Failed(), len(report.Stale()))
	// Output: true 1
}

func ExampleDeclared() {
	harness := inMemory()
	harness.Deviations = []conformance.Deviation{{Case: "CORE-01", Reason: "the claims change from day to day"}}
	suite := conformance.Suite{Harness: harness, Only: only("CORE-01")}
	report, err := suite.Run(context.Background())
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, d := range report.Summary.Deviations {
		fmt.Println(d.Case, d.Failed, d.Stale)
	}
	// Output: CORE-01 [] true
}

// A report is JSON, and a table is made of one or several.
func ExampleReport() {
	suite := conformance.Suite{Harness: inMemory(), Only: only("CORE-01"), Seed: 1}
	report, err := suite.Run(context.Background())
	if err != nil {
		fmt.Println(err)
		return
	}
	text, err := report.JSON()
	if err != nil {
		fmt.Println(err)
		return
	}
	again, err := conformance.ParseReport(text)
	if err != nil {
		fmt.Println(err)
		return
	}
	var table strings.Builder
	fmt.Println(again.Seed, conformance.WriteTable(&table, again), table.Len() > 0)
	// Output: 1 <nil> true
}

func ExampleResult() {
	suite := conformance.Suite{Harness: inMemory(), Only: only("CORE-01"), Seed: 1}
	report, err := suite.Run(context.Background())
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, r := range report.Results {
		if r.ID == "CORE-01" {
			fmt.Println(r.ID, r.Outcome, len(r.Messages), r.Took > 0)
		}
	}
	// Output: CORE-01 pass 0 true
}

func ExampleOutcome() {
	fmt.Println(conformance.Outcomes())
	// Output: [deviation fail unproven unsupported pass]
}

func ExampleSummary() {
	suite := conformance.Suite{Harness: inMemory(), Only: only("CORE-01"), Seed: 1}
	report, err := suite.Run(context.Background())
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(report.Summary.Counts[conformance.Fail], report.Summary.Counts[conformance.Pass])
	// Output: 0 1
}

func ExampleStore() {
	suite := conformance.Suite{Harness: inMemory(), Only: only("CORE-01"), Seed: 1}
	report, err := suite.Run(context.Background())
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(report.Store.Name, report.Store.Locks, report.Store.Limits)
	// Output: memory true true
}

func ExampleSelection() {
	suite := conformance.Suite{Harness: inMemory(), Only: only("CORE-01"), Seed: 1}
	report, err := suite.Run(context.Background())
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(report.Selection.Partial, report.Selection.Stopped)
	// Output: true false
}

func ExampleMessage() {
	m := conformance.Message{Failure: true, At: "cases_token.go:40", After: time.Second, Text: "token 7 after 8: want a greater one"}
	fmt.Println(m.At, m.After, m.Text)
	// Output: cases_token.go:40 1s token 7 after 8: want a greater one
}

// What does the core do when the reply to a lock is lost? It says that it does not know, and cleans up.
func ExampleInjector() {
	store, injector := conformance.NewInjector(memory.NewStore().Open())
	client, err := coord.New(store)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()
	ctx := context.Background()

	injector.Script(func(c conformance.Call) conformance.Fault {
		if c.Op == "TryLock" {
			return conformance.FailAfter // the store has it, the caller does not know
		}
		return conformance.NoFault
	})
	_, err = client.TryLock(ctx, "invoices")
	fmt.Println(errors.Is(err, coord.ErrUnknownOutcome))
	// Output: true
}

// Every call on the driver is recorded.
func ExampleCall() {
	store, injector := conformance.NewInjector(memory.NewStore().Open())
	client, err := coord.New(store)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()
	ctx := context.Background()

	fmt.Println(coord.Do(ctx, client, "invoices", func(context.Context) error { return nil }))
	for _, c := range injector.Calls() {
		fmt.Println(c.N, c.Op, c.Key)
	}
	// Output:
	// <nil>
	// 1 TryLock invoices
	// 2 Unlock invoices
}

// A request that is lost, and a reply.
func ExampleFault() {
	store, injector := conformance.NewInjector(memory.NewStore().Open())
	client, err := coord.New(store)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()
	ctx := context.Background()

	for _, fault := range []conformance.Fault{conformance.FailBefore, conformance.FailAfter, conformance.NoFault} {
		injector.Script(func(conformance.Call) conformance.Fault { return fault })
		_, err := client.AllowN(ctx, "mails", coord.PerHour(10), 3)
		fmt.Println(err == nil)
	}
	left, err := client.Peek(ctx, "mails", coord.PerHour(10))
	fmt.Println(left.Remaining, err) // of the three requests the store has seen two
	// Output:
	// false
	// false
	// true
	// 4 <nil>
}

// The way of one client to its store, while others work.
func ExampleLink() {
	store, injector := conformance.NewInjector(memory.NewStore().Open())
	client, err := coord.New(store)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()
	ctx := context.Background()

	var link conformance.Link = injector
	link.Cut()
	fmt.Println(errors.Is(client.Reset(ctx, "mails", coord.PerHour(10)), coord.ErrUnavailable))
	link.Heal()
	fmt.Println(client.Reset(ctx, "mails", coord.PerHour(10)))
	// Output:
	// true
	// <nil>
}

// A case that needs what the harness has not got is unproven, and says what.
func ExampleHook() {
	suite := conformance.Suite{Harness: inMemory(), Only: only("LOCK-17"), Seed: 1}
	report, err := suite.Run(context.Background())
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, r := range report.Results {
		fmt.Println(r.Outcome, r.Hooks)
	}
	// Output: unproven [Faults.Wipe]
}

// What a harness is given is enough for helpers of tests, and *testing.T has it.
func ExampleTB() {
	open := func(tb conformance.TB) driver.Backend {
		tb.Helper()
		store := memory.NewStore().Open()
		tb.Cleanup(func() { tb.Logf("closed: %v", store.Close()) })
		return store
	}
	harness := conformance.Harness{Open: open, Claims: memory.Claims}
	fmt.Println(harness.Open != nil)
	// Output: true
}
