package testserver

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
)

// mountDisks mounts the small disk, and gives what initdb is to know of it.
func (s *Server) mountDisks() (initdb []string, err error) {
	if s.config.disk == "" {
		return nil, nil
	}
	if os.Geteuid() != 0 {
		const why = "testserver: mounts need root"
		if slices.Contains(strings.Split(os.Getenv("COORD_TEST_REQUIRE"), ","), "mount") {
			s.t.Fatal(why + ", and COORD_TEST_REQUIRE names mount")
		}
		s.t.Skip("unsupported: " + why)
	}
	options := fmt.Sprintf("size=%s,mode=0700", s.config.diskSize)
	if s.attr != nil && s.attr.Credential != nil {
		options += fmt.Sprintf(",uid=%d,gid=%d", s.attr.Credential.Uid, s.attr.Credential.Gid)
	}
	if err := os.Mkdir(s.disk(), 0o700); err != nil {
		return nil, err
	}
	if err := syscall.Mount("none", s.disk(), "tmpfs", 0, options); err != nil {
		return nil, err
	}
	s.t.Cleanup(func() { // after the server has been killed
		if s.process != nil {
			s.process.kill()
		}
		if err := syscall.Unmount(s.disk(), syscall.MNT_DETACH); err != nil {
			s.t.Error(err)
		}
	})
	initdb = []string{"--wal-segsize=1"}
	other := s.dir + "/" + string(DiskWAL)
	return append(initdb, "-X", other), nil
}
