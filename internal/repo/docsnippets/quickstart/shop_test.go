package main

import (
	"context"
	"errors"
	"testing"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/coordtest"
)

func TestSellingEndsWithTheLock(t *testing.T) {
	client := coordtest.New(t)
	err := coord.Do(t.Context(), client, "tickets", func(ctx context.Context) error {
		client.Lose("tickets") // as if the store had lost it
		<-ctx.Done()           // so the context of the work ends
		return nil
	})
	if !errors.Is(err, coord.ErrLost) {
		t.Errorf("got %v, want ErrLost", err)
	}
}
