// Package call makes calls on a store's client library that knows no context, or that pays for a cancellation with its
// connection, for adapters.
//
// [Do] returns when its context ends or the adapter closes. The work goes on by itself, and what it has left can be undone
// then. With [DoSend] the work says when it sends something: before that, nothing has to be undone. [Calls] are those of one adapter: [Calls.Close] ends them, and [Calls.Wait] waits
// for what still goes on. With [OnWay] whoever is to end what a request does waits for those that are still under way.
package call
