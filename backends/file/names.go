package file

import (
	"crypto/sha256"
	"encoding/hex"
	"hash/crc32"
	"strings"

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
// was too long and ends in a hash of itself, are therefore ours alone.
func fileName(n cas.Name) string {
	b := make([]byte, 0, maxName+1)
	b = append(b, n.Kind.String()...)
	b = append(b, ',')
	if n.Kind == cas.Limit {
		b = appendEscaped(b, n.State)
		b = append(b, ',')
	}
	b = appendEscaped(b, n.Key)
	if len(b) <= maxName {
		return string(b)
	}
	sum := sha256.Sum256(b)
	tail := "#" + hex.EncodeToString(sum[:])
	return string(b[:maxName-len(tail)]) + tail
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
