//go:build !unix

package sim

import "time"

// cpu is not known here.
func cpu() time.Duration { return 0 }
