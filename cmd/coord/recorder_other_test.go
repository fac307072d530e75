//go:build !unix

package main_test

const envRecorder = "COORD_TEST_RECORDER"

func record() int { return 1 }
