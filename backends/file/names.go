package file

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"hash/crc32"
	"slices"
	"strings"
	"time"

	"github.com/coordgo/coord/driver/cas"
)

// maxName is the longest file name used: what encrypting filesystems leave of
// the usual 255.
const maxName = 140

// fileName gives a cell its file name, a different one to each:
//
//	lock,KEY  or  shared,KEY  or  limit,STATE,KEY
//
// with every byte but a-z, 0-9, '.', '_' and '-' as %xx: filesystems may fold
// upper and lower case, and Unicode forms. The comma, and the '#' of a name that
// was too long and ends in a hash of itself, are therefore ours alone. The value of
// a cell with such a name begins with the whole name, on a line of its own.
func fileName(n cas.Name) string { return cutName(wholeName(n)) }

func wholeName(n cas.Name) []byte {
	b := make([]byte, 0, maxName+1)
	b = append(b, n.Kind.String()...)
	b = append(b, ',')
	if n.Kind == cas.Limit {
		b = appendEscaped(b, n.State)
		b = append(b, ',')
	}
	return appendEscaped(b, n.Key)
}

func cutName(whole []byte) string {
	if len(whole) <= maxName {
		return string(whole)
	}
	sum := sha256.Sum256(whole)
	tail := "#" + hex.EncodeToString(sum[:])
	return string(whole[:maxName-len(tail)]) + tail
}

// withName is fn on a value that begins with the whole name.
func withName(whole []byte, fn cas.Func) cas.Func {
	line := append(whole, '\n')
	return func(old []byte, now time.Time) (cas.Change, error) {
		change, err := fn(bytes.TrimPrefix(old, line), now)
		if change.Value != nil {
			change.Value = slices.Concat(line, change.Value)
		}
		return change, err
	}
}

const hexDigits = "0123456789abcdef"

func appendEscaped(b []byte, s string) []byte {
	for i := range len(s) {
		c := s[i]
		if 'a' <= c && c <= 'z' || '0' <= c && c <= '9' || strings.IndexByte("._-", c) >= 0 {
			b = append(b, c)
			continue
		}
		b = append(b, '%', hexDigits[c>>4], hexDigits[c&15])
	}
	return b
}

// isCell reports whether a directory entry is a cell's file.
func isCell(name string) bool {
	kind, _, _ := strings.Cut(name, ",")
	return kind == cas.Lock.String() || kind == cas.Limit.String() || kind == cas.Shared.String()
}

// shardOf spreads the cells. It is part of the format: all processes must agree.
func shardOf(fileName string) int {
	return int(crc32.ChecksumIEEE([]byte(fileName)) % shards)
}
