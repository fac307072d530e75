//go:build unix

package main

import (
	"os"
	"syscall"
	"unsafe"

	"github.com/coordgo/coord/internal/bench"
)

// mapWords maps the words in a file into this process, so that several meet in them. They stay
// mapped until it ends.
func mapWords(path string) (*bench.Words, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	size := int(unsafe.Sizeof(bench.Words{}))
	if err := f.Truncate(int64(size)); err != nil {
		return nil, err
	}
	b, err := syscall.Mmap(int(f.Fd()), 0, size, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	if err != nil {
		return nil, err
	}
	// Words are atomic integers and nothing else, and a mapping begins at a page.
	return (*bench.Words)(unsafe.Pointer(&b[0])), nil
}
