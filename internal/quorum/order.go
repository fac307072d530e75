package quorum

import (
	"cmp"
	"slices"
)

// inOrder gives the indexes of members in an order that all clients have in common, however each lists them: by what the
// servers call themselves, as far as this client has seen that. Requests begin in it, and contenders pause by it. A client
// that asked in another order would meet the requests, and the releases, of all others from the wrong end, and starve.
func inOrder(members []*member) []int {
	order, names := make([]int, len(members)), make([]string, len(members))
	for i, m := range members {
		order[i], names[i] = i, m.runs.server()
	}
	slices.SortStableFunc(order, func(i, k int) int {
		if names[i] == "" || names[k] == "" { // what it has not seen comes last: two of them are no reason to pause
			return cmp.Compare(names[k], names[i])
		}
		return cmp.Compare(names[i], names[k])
	})
	return order
}

// rank is how many members come before the first one that has granted.
func (b *Backend) rank(grants *round[vote]) int {
	return max(0, slices.IndexFunc(inOrder(b.members), func(i int) bool {
		a := grants.answers[i]
		return a != nil && a.err == nil
	}))
}
