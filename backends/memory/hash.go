package memory

import "math/bits"

// shortKey is up to how many bytes fold is faster than hash/maphash.
const shortKey = 32

// fold hashes key, which has 1 to shortKey bytes, in the manner of wyhash: 8
// bytes at a time, each multiplied to 128 bits whose halves are folded together.
// It only has to spread keys over the shards. Keys that meet in one share a
// mutex, nothing else.
func fold(salt uint64, key string) uint64 {
	n := len(key)
	if n < 8 {
		return mix(salt ^ tail(key) ^ uint64(n)<<56)
	}
	for i := 8; i < n; i += 8 {
		salt = mix(salt ^ word(key[i-8:]))
	}
	return mix(salt ^ word(key[n-8:]) + uint64(n)) // may overlap the word before
}

func mix(x uint64) uint64 {
	hi, lo := bits.Mul64(x, 0x9e3779b97f4a7c15) // 2^64 by the golden ratio, odd
	return hi ^ lo
}

// word is the first 8 bytes of s. The compiler makes one load of it.
func word(s string) uint64 {
	_ = s[7]
	return uint64(s[0]) | uint64(s[1])<<8 | uint64(s[2])<<16 | uint64(s[3])<<24 |
		uint64(s[4])<<32 | uint64(s[5])<<40 | uint64(s[6])<<48 | uint64(s[7])<<56
}

// half is the first 4 bytes of s.
func half(s string) uint64 {
	_ = s[3]
	return uint64(uint32(s[0]) | uint32(s[1])<<8 | uint32(s[2])<<16 | uint32(s[3])<<24)
}

// tail is the 1 to 7 bytes of s, from both ends.
func tail(s string) uint64 {
	n := len(s)
	if n >= 4 {
		return half(s) | half(s[n-4:])<<32
	}
	return uint64(s[0]) | uint64(s[n/2])<<8 | uint64(s[n-1])<<16
}
