package coord

import (
	"crypto/rand"
	"encoding/binary"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/coordgo/coord/driver"
)

// ids names what one client asks for. Of the 128 random bits of an id half are the client's, so that a refusal by the
// store can say that another client of this process is in the way: a nested Do of that one, most often.
type ids struct{ client [8]byte }

var (
	pid       = os.Getpid()
	processID = randomNumber()
	clients   atomic.Uint64
)

func randomNumber() uint64 {
	var b [8]byte
	rand.Read(b[:]) // never fails: it ends the program instead
	return binary.BigEndian.Uint64(b[:])
}

// newIDs is for one client more: it has the number of the process, plus its own.
func newIDs() (i ids) {
	binary.BigEndian.PutUint64(i.client[:], processID+clients.Add(1))
	return i
}

// asLeader ends the name of a holder that leads, where a person's name cannot: so a lock is not handed over as a lead.
const asLeader = "\x00lead"

// next names one acquisition.
func (i *ids) next(holder string) string {
	if holder, leads := strings.CutSuffix(holder, asLeader); leads {
		return i.next(holder) + driver.LeaderMark
	}
	var random [16]byte
	copy(random[:], i.client[:])
	rand.Read(random[len(i.client):])
	return driver.FormatID(holder, pid, time.Now(), random)
}

// beside reports whether an id is of another client of this process.
func (i *ids) beside(id string) bool {
	id = strings.TrimSuffix(id, driver.LeaderMark)
	const digits = 2 * len(i.client)
	if len(id) < 2*digits {
		return false
	}
	theirs, err := strconv.ParseUint(id[len(id)-2*digits:len(id)-digits], 16, 64)
	number := theirs - processID
	return err == nil && theirs != binary.BigEndian.Uint64(i.client[:]) && 0 < number && number <= clients.Load()
}

// newID names what the client itself asks for.
func (c *Client) newID() string { return c.ids.next(c.holder) }
