//go:build unix

package file

import (
	"os"
	"path/filepath"
	"syscall"
)

// giveToOwner gives a new file of root's to the owner of the directory that it is
// in: a user can use his store after root has.
func giveToOwner(f *os.File) error {
	if os.Geteuid() != 0 {
		return nil
	}
	st, err := os.Stat(filepath.Dir(f.Name()))
	if err != nil {
		return err
	}
	owner, ok := st.Sys().(*syscall.Stat_t)
	if !ok || owner.Uid == 0 {
		return nil
	}
	return f.Chown(int(owner.Uid), int(owner.Gid))
}

// openDir opens a directory, and nothing that a link leads to.
func openDir(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NOFOLLOW, 0)
}
