package driver_test

import (
	"context"
	"fmt"

	"github.com/coordgo/coord/driver"
)

// diskStore is a store that knows how full its disk is.
type diskStore struct {
	driver.Unimplemented
	used int
}

// Check implements driver.Operator.
func (s diskStore) Check(context.Context) ([]driver.Finding, error) {
	f := driver.Finding{Level: driver.LevelOK, Name: "disk", Text: fmt.Sprintf("%d%% used", s.used)}
	if s.used > 90 {
		f.Level, f.Remedy = driver.LevelWarn, "add space: a full disk refuses new locks"
	}
	return []driver.Finding{f}, nil
}

// An adapter tells coord doctor what it finds.
func ExampleOperator_Check() {
	var checker driver.Operator = diskStore{used: 95}
	findings, err := checker.Check(context.Background())
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, f := range findings {
		fmt.Println(f.Level, f.Name, f.Text)
		fmt.Println(f.Remedy)
	}
	// Output:
	// warn disk 95% used
	// add space: a full disk refuses new locks
}

func ExampleFinding() {
	worst := driver.Finding{Level: driver.LevelFail, Name: "role", Text: "a replica", Remedy: "give the address of the master"}
	fmt.Println(worst.Level == driver.LevelFail, worst.Name)
	// Output: true role
}

func ExampleLevel() {
	fmt.Println(driver.LevelOK, driver.LevelSkip, driver.LevelWarn, driver.LevelFail)
	// Output: ok skip warn fail
}
