package testserver

import (
	"crypto/rand"
	"errors"
	"os"
	"path/filepath"
	"syscall"
)

// filling is the file by which a disk is full.
const filling = "filling"

// Disk is what of a PostgreSQL server is on a small disk of its own.
type Disk string

const (
	DiskData Disk = "data" // all but the write-ahead log
	DiskWAL  Disk = "wal"  // the write-ahead log, in segments of 1 MB
)

// WithDisk gives a part of a PostgreSQL server a disk of so many bytes, so that [Server.Fill] can fill it. Such a test is
// skipped where it may not mount, or fails there if COORD_TEST_REQUIRE names "mount".
func WithDisk(d Disk, size string) Option {
	return func(c *config) { c.disk, c.diskSize = d, size }
}

func (s *Server) disk() string { return filepath.Join(s.dir, string(s.config.disk)) }

// Fill fills the disk.
func (s *Server) Fill() {
	s.t.Helper()
	f, err := os.OpenFile(filepath.Join(s.disk(), filling), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		s.t.Fatalf("testserver: %v", err)
	}
	page := make([]byte, os.Getpagesize())
	_, _ = rand.Read(page) // never fails
	for err == nil {
		_, err = f.Write(page)
	}
	if err = errors.Join(err, f.Close()); !errors.Is(err, syscall.ENOSPC) {
		s.t.Fatalf("testserver: fill a disk: %v", err)
	}
}

// Free ends Fill.
func (s *Server) Free() {
	s.t.Helper()
	if err := os.Remove(filepath.Join(s.disk(), filling)); err != nil {
		s.t.Fatalf("testserver: %v", err)
	}
}
