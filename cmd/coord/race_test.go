//go:build race

package main_test

// buildFlags are what the tests are built with.
var buildFlags = []string{"-race"}
