//go:build race

package main_test

// buildFlags of the command under test: what the tests are built with.
var buildFlags = []string{"-race"}
