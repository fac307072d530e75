package conformance

import (
	"github.com/coordgo/coord/driver"
)

// sharing is what the cases about keys that several hold need.
var sharing = driver.Claims{driver.Shared}

// sharedCases are about read/write locks and semaphores, at the driver. Those of whole clients are sharedClientCases.
func sharedCases() []Case {
	return []Case{
		{
			ID: "LOCK-301", Name: "readers-together-writer-alone", Clause: "SH1", run: readersTogether, Proves: driver.Shared,
			Why:    "a writer that comes in beside the last reader, or a reader beside a writer, reads what is half written",
			Remedy: "decide in one atomic step over all live holds of the key, whoever's client they are",
		}, {
			ID: "LOCK-303", Name: "weights-add-up", Clause: "SH1", run: weightsAddUp, Needs: sharing,
			Why:    "a holder that counts as one whatever it takes lets as many heavy ones in as light ones",
			Remedy: "add up Share.Weight of all live holds, as 64-bit integers",
		}, {
			ID: "LOCK-304", Name: "the-least-bound-counts-and-none-is-stored", Clause: "SH1", run: leastBound, Needs: sharing,
			Why:    "a capacity that is set once cannot be changed by a rolling deploy (Redisson 4678, 4679); a bound of the request alone lets a semaphore of 3 in beside one of 1",
			Remedy: "keep Share.Of with each hold, and take the least of the live ones and the request's",
		}, {
			ID: "LOCK-305", Name: "the-head-keeps-newcomers-out", Clause: "SH4", run: headKeepsOut, Needs: sharing,
			Why:    "who needs all of it waits for ever where newcomers take what becomes free (Redisson 5379)",
			Remedy: "note the id of a head that was refused for driver.HeadFor, grant nobody else meanwhile, and forget it with its grant or Unlock",
		}, {
			ID: "LOCK-306", Name: "a-dead-holders-share-comes-back-alone", Clause: "SH2", run: deadShare, Needs: sharing,
			Why:    "permits of a process that died leak (Redisson 2045), or all holds end with the first lease",
			Remedy: "give each hold a lease of its own, and count only live ones at each step",
		}, {
			ID: "LOCK-307", Name: "tokens-rise-over-all-holds", Clause: "SH3", run: sharedTokensRise, Needs: sharing,
			Why:    "a token that readers share, or that begins again when the last one leaves, fences nobody",
			Remedy: "count tokens per key in the step that grants, and keep the count longer than the holds",
		}, {
			ID: "LOCK-308", Name: "slots-are-lowest-free-and-unique", Clause: "SH3", run: lowestSlots, Needs: sharing,
			Why:    "a slot that is the position in a list moves when an earlier holder leaves: two workers have one shard",
			Remedy: "store the slot with the hold, and give the lowest that no live hold has",
		}, {
			ID: "LOCK-309", Name: "holds-outlive-a-restart", Clause: "SH2", run: sharedRestart, Needs: driver.Claims{driver.Shared, driver.DurableRestart}, Hooks: []Hook{HookRestart},
			Why:    "a store that forgets its holders in a restart, and does not say so, lets a writer in beside readers",
			Remedy: "keep shared holds as durable as others",
		}, {
			ID: "LOCK-310", Name: "a-dead-head-is-passed", Clause: "SH4", run: deadHead, Needs: sharing,
			Why:    "a mark of the head without an end blocks the key when its process dies",
			Remedy: "end the mark by the store's clock, or with the head's session",
		}, {
			ID: "LOCK-311", Name: "a-repeated-attempt-counts-once", Clause: "SH2", run: countsOnce, Needs: sharing,
			Why:    "a reply that is lost makes the client ask again: if both count, half of the permits are gone",
			Remedy: "look for the id among the live holds first, and give the same token and slot again",
		}, {
			ID: "LOCK-312", Name: "renewal-never-revives-raises-or-shortens", Clause: "SH2", run: renewalOfShares, Needs: sharing,
			Why:    "a renewal that is written as a take brings back holds that are over, or takes more than was granted",
			Remedy: "let Renew change the line of its own id alone, lower the weight at most, and give ErrNotHeld where there is no line",
		}, {
			ID: "LOCK-313", Name: "a-downgrade-is-one-step", Clause: "SH5", run: downgrades, Needs: sharing,
			Why:    "a release and a take let another writer in between (Curator 276, 621)",
			Remedy: "let Renew with a smaller Share change the hold in place, also while a head waits",
		}, {
			ID: "LOCK-314", Name: "as-many-holders-as-the-store-says", Clause: "SH6", run: mostHolders, Needs: sharing,
			Why:    "a record that grows without a bound makes each change slower, until none comes through",
			Remedy: "refuse with ErrUnsupported above driver.MaxHolders, or a bound of your own of at least 64",
		}, {
			ID: "LOCK-315", Name: "senseless-shares-are-refused", Clause: "SH6", run: senselessShares, Needs: sharing,
			Why:    "a weight of zero or below is a hold without end, one above all permits waits for ever",
			Remedy: "call Share.Check first",
		}, {
			ID: "LOCK-316", Name: "holders-are-shown", Clause: "SH7", run: showsHolders, Needs: sharing,
			Why:    "membership leans on the list of holders: one that is missing, or dead and shown, moves work wrongly",
			Remedy: "list the live holds alone, each with what it has",
		}, {
			ID: "LOCK-317", Name: "a-broken-hold-counts-until-its-lease-ends", Clause: "SH7", run: breaksShare, Needs: sharing,
			Why:    "an operator who revokes a hold must not let another in while its holder has not noticed",
			Remedy: "mark the hold as broken, refuse its Renew and Unlock, and count it until its lease ends",
		}, {
			ID: "LOCK-348", Name: "break-now-frees-a-share-at-once", Clause: "SH7", run: breaksShareNow, Needs: sharing,
			Why:    "a dead member of a semaphore keeps its permits for its whole lease, and after Break nothing could free them",
			Remedy: "let BreakNow end all that the id has of the key, also what was broken, and nothing of another id",
		}, {
			ID: "LOCK-318", Name: "a-batch-renews-holds-of-one-key", Clause: "SH2", run: renewsShares, Needs: sharing,
			Why:    "a batch that knows one hold per key renews one of a client's readers, and loses the others",
			Remedy: "match answers by id, not by key",
		}, {
			ID: "LOCK-319", Name: "changes-are-pushed", Clause: "SH4", run: pushesChanges, Needs: sharing,
			Why:    "a head that sleeps until a message comes, which is missed, sleeps out the lease (Redisson 3891)",
			Remedy: "listen first, then call changed, then call it whenever less is granted than before",
		}, {
			ID: "LOCK-320", Name: "shared-keys-are-apart", Clause: "SH8", run: sharedKeysApart, Needs: sharing,
			Why:    "a semaphore, a lock and a limit of one name are an everyday coincidence; so are keys that look alike",
			Remedy: "give shared holds names of their own in the store, and encode keys as for locks",
		}, {
			ID: "LOCK-321", Name: "history-of-shares-keeps-the-bound", Clause: "SH1", run: playedUnder(withoutFaults, shareHistory), Needs: sharing, Remedy: shareRemedy,
			Why: "tests of one interleaving miss the next one: readers, writers and permits come and go at random, and every pair of intervals is checked",
		}, {
			ID: "LOCK-322", Name: "history-of-shares-with-lost-calls-keeps-the-bound", Clause: "SH2", run: playedUnder(lossyCalls, shareHistory), Needs: sharing, Remedy: shareRemedy,
			Why: "a lost reply leaves a hold that counts, that its id finds again, and that ends with its lease",
		}, {
			ID: "LOCK-323", Name: "history-of-shares-over-a-broken-network-keeps-the-bound", Clause: "SH2", Slow: true, run: playedUnder(brokenNetwork, shareHistory), Needs: sharing, Hooks: []Hook{HookLink}, Remedy: shareRemedy,
			Why: "the same under the store's own client library, which reconnects and may send again",
		},
	}
}

const shareRemedy = "read the operations that the message names: make each of TryLock, Renew and Unlock one atomic step over all holds of the key"
