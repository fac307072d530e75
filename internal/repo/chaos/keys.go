package chaos

import (
	"fmt"
	"slices"
	"time"

	"github.com/coordgo/coord"
)

// The modes in which keys are taken, as the report counts them.
const (
	exclusive = "exclusive"
	permits   = "permits"
	read      = "read"
	write     = "write"
	downgrade = "downgrade" // a writer that became a reader
)

// of is the bound of the semaphores. A reader has one of many permits of its key, and a writer has all of them.
const (
	of   = 3
	many = 1 << 20
)

// keyState is who has a key. All keys are permits: that of an exclusive lock has one.
type keyState struct {
	name    string
	of      int64
	live    []holding
	last    coord.Token           // the greatest that entered
	weights map[int64]coord.Token // the greatest of each weight
	slots   map[int]coord.Token   // the greatest of each slot
	granted time.Time             // when the last entered
}

// holding is one holder, from its grant until it begins to unlock.
type holding struct {
	lock   *coord.Lock
	weight int64
}

func newKey(name string, of int64) keyState {
	return keyState{name: name, of: of, weights: map[int64]coord.Token{}, slots: map[int]coord.Token{}}
}

// enter counts a holder in, and says what is wrong with it. after is k.last when it began to ask.
func (k *keyState) enter(l *coord.Lock, weight int64, after coord.Token) (overlap, token string) {
	k.live = slices.DeleteFunc(k.live, func(h holding) bool { return h.lock.Err() != nil })
	sum, slots := weight, 0
	for _, h := range k.live {
		sum += h.weight
		if h.lock.Slot() == l.Slot() {
			slots++
		}
	}
	if sum > k.of || slots > 0 {
		overlap = fmt.Sprintf("%s: token %d, %d permits at slot %d, was granted beside%s: %d of %d", k.name, l.Token(), weight, l.Slot(), k.holders(), sum, k.of)
	}
	if above := k.above(l, weight, after); l.Token() <= above {
		token = fmt.Sprintf("%s: token %d, %d permits at slot %d, after %d", k.name, l.Token(), weight, l.Slot(), above)
	}
	k.live = append(k.live, holding{l, weight})
	k.last = max(k.last, l.Token())
	k.weights[weight] = max(k.weights[weight], l.Token())
	k.slots[l.Slot()] = max(k.slots[l.Slot()], l.Token())
	k.granted = time.Now()
	return overlap, token
}

// above is what the token of l must be above: those that entered before l was asked for, and those that entered before l did
// and could not be held beside it. Others may have been granted later than l.
func (k *keyState) above(l *coord.Lock, weight int64, after coord.Token) coord.Token {
	above := max(after, k.slots[l.Slot()])
	for w, token := range k.weights {
		if w+weight > k.of {
			above = max(above, token)
		}
	}
	return above
}

// holders shows who is there.
func (k *keyState) holders() (text string) {
	for _, h := range k.live {
		text += fmt.Sprintf(" %d (%d at slot %d, until %v from now)", h.lock.Token(), h.weight, h.lock.Slot(), time.Until(h.lock.Deadline()))
	}
	return text
}

// leave counts a holder out.
func (k *keyState) leave(l *coord.Lock) {
	k.live = slices.DeleteFunc(k.live, func(h holding) bool { return h.lock == l })
}

// shrink makes a writer a reader.
func (k *keyState) shrink(writer, reader *coord.Lock) {
	for i := range k.live {
		if k.live[i].lock == writer {
			k.live[i] = holding{reader, 1}
		}
	}
}
