// Package conformance proves that a store's adapter keeps the contract of
// coord, docs/contract.md, clause by clause.
//
// The author of an adapter writes one test:
//
//	func TestConformance(t *testing.T) {
//		conformance.Run(t, conformance.Harness{
//			Open:   func(tb conformance.TB) driver.Backend { return open(tb, addr) },
//			Claims: mystore.Claims,
//			Faults: conformance.TCPFaults(addr, open),
//		})
//	}
//
// The same cases run outside go test through [Suite].
//
// # Results
//
// Each case ends in one of five ways, and none is silent:
//
//   - pass;
//   - fail: the message says which clause, what was seen, what was expected
//     and how to run this case alone;
//   - deviation: it failed, as the harness had declared, with a reason;
//   - unsupported: the case is about a claim that the store does not make, or
//     a half, locks or limits, or an optional interface that it does not have;
//   - unproven: the store may well keep the clause, but the harness lacks the
//     hook that the case needs, such as a way to pause the server.
//
// A claim is proved both ways. A claim that fails is a failure; a capability
// that works without being claimed is reported as unclaimed.
//
// # What it can and cannot tell
//
// A case fails only on what cannot happen with an adapter that keeps the
// contract, however busy the machine is: it judges what happens, in which order and
// how often, and waits for each event with a watchdog of a minute. When something
// happens is judged where [Harness].FakeTime is set, and there exactly. A pass is
// evidence and no proof.
//
// # Histories
//
// Cases whose numbers begin with 2 let several clients work at the same time, and look for
// an order of what they did that a sequential model allows. A history without one
// is saved and drawn in the directory that [HistoriesEnv] names; [CheckHistory] checks it again.
// docs/contributing/histories.md has the models.
//
// # Faults
//
// Every case about lost replies, black holes and stalls runs on the [Injector],
// which sits between package coord and the adapter and needs nothing of the
// store, and runs again over the network where [TCPFaults] is given. Cases about
// a process that dies or freezes need [WorkerMain] in the test binary.
package conformance
