//go:build !linux

package main_test

const envCaller = "COORD_TEST_CALLER"

func call([]string) {}
