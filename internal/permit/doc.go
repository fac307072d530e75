// Package permit is the engine behind limits. It takes permits from the store for the callers of one client. It does
// not know the client: keys come with their prefix, limits in normal form.
//
// The way of one request, from file to file:
//
//	pool.go        Pool: a request is answered from memory, from prefetched permits or by the store
//	denials.go     what the store denied, remembered for a second
//	prefetched.go  permits of one limit that were taken in advance
//	table.go       those of all limits; size.go decides how many, policy.go holds the rules, fetch.go asks for them
//	coalesce.go    requests for one limit that arrive during a call share the next one
//	wait.go        a wait for permits
//	queue.go       the callers that wait for one limit, in order; answer.go is what answers mean to them
//	multi.go       several limits in one step
//	refund.go      permits that nobody wants any more go back
package permit
