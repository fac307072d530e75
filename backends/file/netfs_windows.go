package file

import (
	"path/filepath"

	"golang.org/x/sys/windows"
)

// sharedFS names the filesystem of dir if several machines may mount it.
func sharedFS(dir string) (string, error) {
	root, err := windows.UTF16PtrFromString(filepath.VolumeName(dir) + `\`)
	if err != nil {
		return "", err
	}
	if windows.GetDriveType(root) == windows.DRIVE_REMOTE {
		return "network drive", nil
	}
	return "", nil
}
