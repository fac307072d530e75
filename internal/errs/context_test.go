package errs

import (
	"context"
	"errors"
	"testing"
	"time"
)

func TestContextError(t *testing.T) {
	why := errors.New("the shop closes")
	caused, end := context.WithCancelCause(t.Context())
	end(why)
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	late, cancel := context.WithTimeout(t.Context(), -time.Second)
	defer cancel()
	for _, tt := range []struct {
		ctx     context.Context
		matches []error
		text    string
	}{
		{t.Context(), nil, ""},
		{canceled, []error{context.Canceled}, "context canceled"},
		{late, []error{context.DeadlineExceeded}, "context deadline exceeded"},
		{caused, []error{context.Canceled, why}, "context canceled: the shop closes"},
	} {
		err := ContextError(tt.ctx)
		for _, want := range tt.matches {
			if !errors.Is(err, want) {
				t.Errorf("%v does not match %v", err, want)
			}
		}
		if text := errorText(err); text != tt.text {
			t.Errorf("saw %q, want %q", text, tt.text)
		}
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
