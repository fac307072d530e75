//go:build !unix

package file

import "errors"

// notDirectory is the error when a file is where a directory should be; here it
// has no name of its own.
var notDirectory = errors.New("not a directory")
