//go:build !(darwin || freebsd || linux || windows)

package file

// sharedFS cannot tell here.
func sharedFS(string) (string, error) { return "", nil }
