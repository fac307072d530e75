// Package mistakes makes the commonest mistakes with each store, and holds coord to what it says of them. The table in
// docs/errors.md is made by its test:
//
//	go test ./internal/repo/mistakes -update
package mistakes
