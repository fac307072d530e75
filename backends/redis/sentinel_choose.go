package redis

// view is what one sentinel says of the master: where it is, and by which configuration.
// Sentinels raise the epoch of a configuration with each failover, and of two
// configurations the one with the higher epoch is in force.
type view struct {
	addr  string
	epoch int64
}

// choose elects the master from the views that have arrived. configured is how many sentinels
// were asked, known is the view in force so far, and more says that other answers may come.
//
// A majority of the sentinels must have answered: those that are cut off together with an
// old master are a minority, because each failover takes the votes of a majority. The
// highest epoch wins, however few name it: others have not heard of that failover yet.
// While more answers may come, a majority must agree on it.
//
// ok is false if nothing can be elected: then the known master stays.
func choose(views []view, configured int, known view, more bool) (elected view, ok bool) {
	majority := configured/2 + 1
	if len(views) < majority {
		return view{}, false
	}
	votes, tie := map[view]int{}, false
	for _, v := range views {
		votes[v]++
	}
	for v, n := range votes {
		switch {
		case v.epoch > elected.epoch, elected.addr == "", v.epoch == elected.epoch && n > votes[elected]:
			elected, tie = v, false
		case v.epoch == elected.epoch && n == votes[elected]:
			tie = true
		}
	}
	if tie || elected.epoch < known.epoch || more && votes[elected] < majority {
		return view{}, false
	}
	return elected, true
}
