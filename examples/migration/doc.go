// Package migration is the code of docs/migration.md: what a program that locks or limits with another
// library looks like before and after its move to coord, and while it moves. Its tests run all of it,
// and show that the library's locks and coord's do not exclude each other.
package migration
