package zookeeper

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/go-zookeeper/zk"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/driver/limits"
)

// A record is what the node of a limit holds: the time on the leader's clock from
// which it says no more than its absence, in Unix microseconds, and the state.
//
// The record is the data of a child of the limit's node, the incarnation, whose random name is not used
// again. Versions start again with each node, and a request can stall on its way: one that names an
// incarnation that was removed meanwhile finds no node, whatever version its successor has.

const recordHead = 1 + 8

// recordVersion is the first byte.
const recordVersion = 1

// recordUntil is the beginning of a record, with room for most states.
func recordUntil(until int64) []byte {
	b := append(make([]byte, 0, 64), recordVersion)
	return binary.BigEndian.AppendUint64(b, uint64(until))
}

// parseRecord reads a record; ErrCorrupt for anything else.
func parseRecord(b []byte) (until int64, s limits.State, err error) {
	if len(b) < recordHead || b[0] != recordVersion || b[1] >= 0x80 {
		return 0, s, fmt.Errorf("%w: %d bytes, not the state of a limit", driver.ErrCorrupt, len(b))
	}
	err = s.UnmarshalBinary(b[recordHead:])
	return int64(binary.BigEndian.Uint64(b[1:])), s, err
}

// answer is a node as a server showed it.
type answer struct {
	node string
	data []byte
	stat *zk.Stat
}

// look reads a limit: the incarnation that was seen last, or the one that has followed it. ErrNoNode
// says that there is none.
func (b *backend) look(dir, node string) (answer, error) {
	for range 10 {
		if node == "" {
			var err error
			if node, err = b.incarnation(dir); err != nil {
				return answer{}, err
			}
		}
		data, stat, err := b.conn.Get(node)
		if !errors.Is(err, zk.ErrNoNode) {
			return answer{node, data, stat}, err
		}
		node = ""
	}
	return answer{}, fmt.Errorf("%w: node %s is removed as often as it is made", driver.ErrNotSent, dir)
}

// incarnation finds the only child of a limit's node. Both are made and removed together.
func (b *backend) incarnation(dir string) (node string, err error) {
	names, stat, err := b.conn.Children(dir)
	if err != nil {
		return "", err
	}
	if len(names) != 1 || len(names[0]) != incarnationLen || stat.DataLength != 0 {
		return "", fmt.Errorf("%w: node %s has the children %.100q and %d bytes of data: want one incarnation of a limit",
			driver.ErrCorrupt, dir, names, stat.DataLength)
	}
	return dir + "/" + names[0], nil
}

// incarnationLen is how many hexadecimal digits the name of an incarnation has: 64 random bits, of the few that one
// limit ever has.
const incarnationLen = 16

func newIncarnation(dir string) (node string) {
	return fmt.Sprintf("%s/%0*x", dir, incarnationLen, rand.Uint64())
}
