package doctor_test

import (
	"fmt"

	"github.com/coordgo/coord/driver/doctor"
)

// An adapter's Check is a table over what its servers tell.
func Example() {
	told := doctor.Parse("disk_used=95\ndurable=yes\n", "=")

	var r doctor.Report
	r.Check("disk",
		doctor.Warn(told.Number("disk_used") > 90, told["disk_used"]+"% used", "add space: a full disk refuses new locks"),
		doctor.OK(true, told["disk_used"]+"% used"))
	r.Check("durability",
		doctor.Skip(told["durable"] == "", "the server does not tell"),
		doctor.Fail(told["durable"] == "no", "a restart frees all locks", "set durable=yes"),
		doctor.OK(true, "durable"))

	for _, f := range r.Findings {
		fmt.Println(f.Level, f.Name, f.Text)
	}
	// Output:
	// warn disk 95% used
	// ok durability durable
}
