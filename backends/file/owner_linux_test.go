package file

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"
)

const nobody = 65534

func init() { roles["owner"] = ownerRole }

// ownerRole uses keys that root has used, and others.
func ownerRole(dir string) error {
	b, err := New(dir)
	if err != nil {
		return err
	}
	l := b
	var errs []error
	for i := range 2 * shards {
		key := strconv.Itoa(i)
		if _, err := l.TryLock(context.Background(), key, request("owner", time.Hour)); err != nil {
			errs = append(errs, fmt.Errorf("key %s: %w", key, err))
		}
	}
	return errors.Join(errors.Join(errs...), b.Close())
}

// What root makes in a user's store is the user's.
func TestRootInAUsersStore(t *testing.T) {
	needRoot(t)
	dir := filepath.Join(t.TempDir(), "store")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(dir, nobody, nobody); err != nil {
		t.Fatal(err)
	}
	b := newBackend(t, dir)
	for i := range shards {
		key, r := strconv.Itoa(i), request("root", time.Hour)
		wantErr(t, key, second(b.TryLock(t.Context(), key, r)), nil)
		wantErr(t, key, b.Unlock(t.Context(), key, r.ID), nil)
	}
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		st, err := e.Info()
		if err != nil {
			return err
		}
		if owner := st.Sys().(*syscall.Stat_t); owner.Uid != nobody || owner.Gid != nobody || st.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s: owner %d, group %d, mode %v, want the user's alone", path, owner.Uid, owner.Gid, st.Mode())
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}

	cmd := exec.CommandContext(t.Context(), testBinary(t))
	cmd.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=0", "COORD_FILE_ROLE=owner", "COORD_FILE_DIR="+dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody, NoSetGroups: true}}
	makeReachable(t, dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("the user: %v: %s", err, out)
	}
}
