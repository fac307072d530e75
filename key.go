package coord

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// MaxKey is the most bytes that a key has. MaxPrefix is the same for the prefix of
// a Client.
const (
	MaxKey    = 1024
	MaxPrefix = 256
)

// reservedKey is how many bytes of a store's longest key are not for applications: coord may put a NUL,
// which no key has, and one byte more before a key of its own.
const reservedKey = 2

// Key joins parts into one key so that different parts never give the same
// key: Key("a/b", "c") is not Key("a", "b/c"). A part's '%' becomes "%25" and
// its '/' becomes "%2F"; the parts are joined by '/'. Key() with no parts, or
// one empty part, is "" and refused by every call.
func Key(parts ...string) string {
	var b strings.Builder
	for i, part := range parts {
		if i > 0 {
			b.WriteByte('/')
		}
		keyEscaper.WriteString(&b, part)
	}
	return b.String()
}

var keyEscaper = strings.NewReplacer("%", "%25", "/", "%2F")

// checkKey refuses what is not a key.
func checkKey(key string) error {
	switch {
	case key == "":
		return fmt.Errorf("%w: empty key: want 1 to %d bytes of UTF-8", ErrInvalid, MaxKey)
	case len(key) > MaxKey:
		return fmt.Errorf("%w: key of %d bytes: want 1 to %d", ErrInvalid, len(key), MaxKey)
	case !utf8.ValidString(key):
		return fmt.Errorf("%w: key %q: want valid UTF-8", ErrInvalid, key)
	case strings.IndexByte(key, 0) >= 0:
		return fmt.Errorf("%w: key %q: want no NUL byte", ErrInvalid, key)
	}
	return nil
}

// fullKey checks key and puts the client's prefix before it.
func (c *Client) fullKey(key string) (string, error) {
	if err := checkKey(key); err != nil {
		return "", err
	}
	if c.prefix != "" {
		key = c.prefix + key
	}
	if limit := c.info.MaxKey; limit > 0 && len(key) > limit-reservedKey {
		return "", fmt.Errorf("%w: key of %d bytes with its prefix: want at most %d on %s", ErrInvalid, len(key), limit-reservedKey, c.info.Name)
	}
	return key, nil
}
