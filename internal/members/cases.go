package members

import (
	"slices"

	"github.com/coordgo/coord/conformance"
)

// Fail reports whether a case breaks a member of the store.
func Fail(c conformance.Case) bool {
	return slices.ContainsFunc(c.Hooks, func(h conformance.Hook) bool {
		return slices.Contains([]conformance.Hook{
			conformance.HookHang, conformance.HookCutOff, conformance.HookSlow, conformance.HookEmpty,
		}, h)
	})
}
