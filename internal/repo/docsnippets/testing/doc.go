// Package service has the tests of docs/testing.md.
package service
