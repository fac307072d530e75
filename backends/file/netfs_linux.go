package file

import (
	"os"

	"golang.org/x/sys/unix"
)

// shared are the filesystems that several machines mount, by the number that
// statfs(2) gives. Those that golang.org/x/sys/unix does not name are from their
// own sources.
var shared = map[uint32]string{
	unix.NFS_SUPER_MAGIC:   "NFS",
	unix.SMB_SUPER_MAGIC:   "SMB",
	unix.SMB2_SUPER_MAGIC:  "SMB",
	unix.CIFS_SUPER_MAGIC:  "SMB",
	unix.AFS_SUPER_MAGIC:   "AFS",
	unix.AFS_FS_MAGIC:      "AFS",
	unix.CEPH_SUPER_MAGIC:  "Ceph",
	unix.CODA_SUPER_MAGIC:  "Coda",
	unix.NCP_SUPER_MAGIC:   "NCP",
	unix.OCFS2_SUPER_MAGIC: "OCFS2",
	unix.V9FS_MAGIC:        "9P",
	0x0bd00bd0:             "Lustre",
	0x01161970:             "GFS2",
	0x47504653:             "GPFS",
	0x19830326:             "BeeGFS",
}

// sharedFS names the filesystem of dir if several machines may mount it.
func sharedFS(dir string) (string, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return "", &os.PathError{Op: "statfs", Path: dir, Err: err}
	}
	return shared[uint32(st.Type)], nil
}
