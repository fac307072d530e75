//go:build !linux

package testserver

func awaitStopped(int) error { return nil }
