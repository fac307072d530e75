package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/config"
	"github.com/coordgo/coord/driver"
)

// sharing is how a command shares its lock with others.
type sharing struct {
	read, write     bool
	permits, weight int // of a semaphore
}

func (s *sharing) isShared() bool { return s.read || s.write || s.permits > 0 }

// define makes the flags.
func (s *sharing) define(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.BoolVar(&s.read, "read", false, "share the lock with others that read")
	flags.BoolVar(&s.write, "write", false, "share the lock with nobody, nor with those that read")
	flags.IntVarP(&s.permits, "permits", "n", 0, "share the lock with others, of which at most this many run at a time")
	flags.IntVar(&s.weight, "weight", 0, "how many of the permits CMD takes (default 1)")
	NoFiles(cmd, "permits")
	NoFiles(cmd, "weight")
}

// check refuses what contradicts itself.
func (s *sharing) check(given func(flag string) bool, minHold time.Duration) error {
	switch permits := given("permits"); {
	case s.read && s.write, permits && (s.read || s.write):
		return Usage("--read, --write and --permits contradict each other: give one of them")
	case !permits && given("weight"):
		return Usage("--weight %d without --permits: how many are there?", s.weight)
	case permits && !given("weight"):
		s.weight = 1
	}
	switch {
	case given("permits") && (s.permits < 1 || s.weight < 1 || s.weight > s.permits):
		return Usage("--permits %d --weight %d: want at least 1 of each, and a weight of at most the permits", s.permits, s.weight)
	case s.isShared() && minHold > 0:
		return Usage("--min-hold with a lock that others share: want one of them")
	}
	return nil
}

// locker is what the lock is taken of.
func (s *sharing) locker(client *config.Client) coord.Locker {
	switch {
	case s.read:
		return client.ReadWrite().Read()
	case s.write:
		return client.ReadWrite().Write()
	case s.permits > 0:
		return client.Semaphore(s.permits)
	}
	return client
}

// view is what shows the holders of a shared lock.
func (s *sharing) view(client *coord.Client) *coord.Shared {
	if s.permits > 0 {
		return client.Semaphore(s.permits)
	}
	return client.ReadWrite().Read()
}

// takenBySeveral says that a shared lock is taken, and who holds it.
func (s *sharing) takenBySeveral(ctx context.Context, client *config.Client, name string) string {
	text := fmt.Sprintf("the lock %q is taken", name)
	if s.permits > 0 {
		text = fmt.Sprintf("no permit of %q is free", name)
	}
	asking, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	holders, err := s.view(client.Client).Holders(asking, name)
	switch {
	case err != nil || len(holders) == 0:
		return text
	case len(holders) == 1:
		return text + ": held by " + who(holders[0])
	}
	return fmt.Sprintf("%s: held by %s and %d more", text, who(holders[0]), len(holders)-1)
}

// memberStatus is what --json prints of one of several holders.
type memberStatus struct {
	*holderStatus
	Mode   string `json:"mode"` // read, write or permits
	Slot   int    `json:"slot"`
	Weight int64  `json:"weight,omitempty"`
	Of     int64  `json:"of,omitempty"`
	LeftMS int64  `json:"left_ms"`
	Broken bool   `json:"broken,omitempty"`
	holder coord.Holder
	view   *coord.Shared // which shows and ends it
}

// membersOf asks who shares name, as a read/write lock and as a semaphore. A store that shares no key has nobody.
func membersOf(ctx context.Context, client *coord.Client, name string) (members []memberStatus, err error) {
	// A semaphore of any number shows all permits.
	for _, view := range []*coord.Shared{client.ReadWrite().Read(), client.Semaphore(1)} {
		holders, err := view.Holders(ctx, name)
		if err != nil && !errors.Is(err, coord.ErrUnsupported) {
			return nil, err
		}
		for _, h := range holders {
			members = append(members, memberStatus{
				holderStatus: statusOfHolder(h), Mode: h.Mode.String(), Slot: h.Slot, Weight: h.Weight, Of: h.Of,
				LeftMS: ceilMS(h.TTL), Broken: h.Released, holder: h, view: view,
			})
		}
	}
	return members, nil
}

// kind is how a holder shares the name.
func (m *memberStatus) kind() string {
	kind := m.Mode
	if m.holder.Mode == driver.Permits {
		kind = fmt.Sprintf("%d of %d permits", m.Weight, m.Of)
	}
	if m.holder.Leader {
		kind += ", leader"
	}
	if m.Broken {
		kind += ", broken"
	}
	return kind
}
