// Package call makes calls on a store's client library that knows no context, or that pays for a cancellation with its
// connection, for adapters.
//
// [Do] returns when its context ends or the adapter closes, and says whether anything was sent. The work goes on by itself,
// and what it has left can be undone then. [Calls] are those of one adapter: [Calls.Close] ends them, and [Calls.Wait] waits
// for what still goes on. With [OnWay] whoever is to end what a request does waits for those that are still under way.
package call
