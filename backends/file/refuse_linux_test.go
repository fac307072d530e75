package file

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// A process without permission is told so. It is another process because the
// superuser has all permissions.
func TestMissingPermission(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	newBackend(t, dir)
	cmd := exec.CommandContext(t.Context(), testBinary(t))
	cmd.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=0", "COORD_FILE_ROLE=denied", "COORD_FILE_DIR="+dir)
	if os.Getuid() == 0 {
		makeReachable(t, dir)
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534, NoSetGroups: true}}
	} else {
		if err := os.Chmod(dir, 0o500); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := os.Chmod(dir, 0o700); err != nil {
				t.Error(err)
			}
		})
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

// makeReachable lets another user come as far as dir.
func makeReachable(t *testing.T, dir string) {
	t.Helper()
	for d := filepath.Dir(dir); strings.HasPrefix(d, filepath.Clean(os.TempDir())+"/"); d = filepath.Dir(d) {
		if err := os.Chmod(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
}

// testBinary is this program at a place where every user may run it.
func testBinary(t *testing.T) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "file.test")
	if err := os.WriteFile(path, data, 0o755); err != nil {
		t.Fatal(err)
	}
	makeReachable(t, path)
	return path
}

func init() {
	roles["denied"] = func(dir string) error {
		_, err := New(dir)
		return expect(err, fs.ErrPermission)
	}
}

func TestSharedFilesystems(t *testing.T) {
	for magic, want := range map[uint32]string{
		unix.NFS_SUPER_MAGIC:  "NFS",
		unix.CIFS_SUPER_MAGIC: "SMB",
		unix.V9FS_MAGIC:       "9P",
		unix.EXT4_SUPER_MAGIC: "",
		unix.TMPFS_MAGIC:      "",
		unix.XFS_SUPER_MAGIC:  "",
	} {
		if got := shared[magic]; got != want {
			t.Errorf("%#x: %q, want %q", magic, got, want)
		}
	}
}
