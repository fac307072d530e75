package etcd

import (
	"context"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// The server enforces the time-out of an attempt, and may say so before the client's own clock does, in three ways.
func TestAgainWhenTheServerSaysThatTheTimeIsUp(t *testing.T) {
	for _, late := range []error{
		context.DeadlineExceeded,
		status.Error(codes.DeadlineExceeded, "context deadline exceeded"),
		status.Error(codes.Unknown, "context deadline exceeded"),
	} {
		attempts := 0
		err := again(t.Context(), func(context.Context) error {
			if attempts++; attempts == 1 {
				return late
			}
			return nil
		})
		if err != nil || attempts != 2 {
			t.Errorf("%v: %d attempts, %v, want a second one that succeeds", late, attempts, err)
		}
	}
}
