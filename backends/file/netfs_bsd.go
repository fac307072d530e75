//go:build darwin || freebsd

package file

import (
	"os"

	"golang.org/x/sys/unix"
)

// sharedFS names the filesystem of dir if several machines may mount it.
func sharedFS(dir string) (string, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return "", &os.PathError{Op: "statfs", Path: dir, Err: err}
	}
	if st.Flags&unix.MNT_LOCAL != 0 {
		return "", nil
	}
	return unix.ByteSliceToString(st.Fstypename[:]), nil
}
