// Package examples holds programs that use coord. Each runs on any store:
//
//	go run ./tour --url redis://localhost:6379
//
// They are a module of their own, which is never tagged, so that what they need beyond
// coord is nobody else's business.
package examples
