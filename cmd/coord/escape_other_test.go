//go:build !linux

package main_test

const envEscape = "COORD_TEST_ESCAPE"

func escape(string) int { return 1 }
