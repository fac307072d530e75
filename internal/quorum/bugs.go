package quorum

// bugs are the defects that the tests of this package have to find. All are false but there.
type bugs struct {
	Half         bool // half of the members are enough
	LongestLease bool // a hold lasts as long as the longest lease
	LeaseFromEnd bool // a lease begins with the answer
	NoWriteBack  bool // the greatest token stays where it is
	Newborn      bool // a member that may have forgotten leases votes
	ErrorVotes   bool // an error is a vote
	RenewalByAny bool // one member's renewal is enough
	WaitsForAll  bool // a call waits for every member
	NoHeal       bool // a member without the hold never gets it again
	NoGiveBack   bool // what a minority has granted stays there
	EveryoneAsks bool // each contender asks all members, and none tries again
}
