// Package permit is the engine behind limits. It takes permits from the store for the callers of one client. It does
// not know the client: keys come with their prefix, limits in normal form.
//
// The way of one request, from file to file:
//
//	pool.go        Pool: a request is answered from memory, from prefetched permits or by the store
//	source.go      the store, with what it denied and the requests that wait for it
//	denials.go     what the store denied, remembered for a second
//	coalesce.go    requests for one limit that arrive during a call share the next one
//	advance.go     permits that were taken in advance, by limit; policy.go has the rules
//	prefetched.go  those of one limit, and how many to fetch; fetch.go fetches them, and gives back what is left
//	wait.go        a wait for permits
//	queue.go       the callers that wait for one limit, in order; answer.go is what answers mean to them
//	multi.go       several limits in one step
//	refund.go      permits that nobody wants any more go back
//
// Types depend on each other in one direction only.
package permit
