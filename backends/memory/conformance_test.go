package memory

import (
	"testing"

	"github.com/coordgo/coord/conformance"
	"github.com/coordgo/coord/driver"
)

func TestConformance(t *testing.T) {
	s := NewStore()
	conformance.Run(t, conformance.Harness{
		Open:   func(conformance.TB) driver.Backend { return s.Open() },
		Claims: Claims,
	})
}
