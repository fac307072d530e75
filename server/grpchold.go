package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/coordgo/coord/server/coordpb"
)

// The window of a held stream: how long an answer lets its holder believe. A holder that asks three times in it misses
// none for one late answer.
const (
	minWindow     = 250 * time.Millisecond
	defaultWindow = time.Second
)

// Hold is a hold whose promises are short: the window, whatever the lease at the store. So the keys of a holder that is
// frozen or cut off are free a window and its margin after its last message, and no connection has to be seen to break.
func (l *locksService) Hold(stream grpc.BidiStreamingServer[coordpb.HoldRequest, coordpb.HoldAnswer]) error {
	h, err := l.begin(stream)
	if err != nil {
		return err
	}
	asked := make(chan error)
	go l.receive(stream, asked)
	for {
		a, err := h.promise()
		if err != nil {
			return err
		}
		a.ID = "" // who has the stream needs none
		if err := stream.Send(heldOf(a)); err != nil {
			return err
		}
		select {
		case err = <-asked:
		case <-h.gone: // as promise tells
		case <-stream.Context().Done():
			err = stream.Context().Err()
		}
		switch {
		case errors.Is(err, io.EOF):
			ctx, cancel := context.WithTimeout(stream.Context(), callTime)
			defer cancel()
			freed, err := h.release(ctx)
			if err == nil && !freed {
				err = errUnconfirmed
			}
			return err
		case err != nil:
			return err // the holder may still believe: the hold ends with its promise
		}
	}
}

// begin is the hold of the first message.
func (l *locksService) begin(stream grpc.BidiStreamingServer[coordpb.HoldRequest, coordpb.HoldAnswer]) (*hold, error) {
	q, err := stream.Recv()
	switch {
	case errors.Is(err, io.EOF) || err == nil && q.GetAcquire() == nil:
		return nil, invalid("the first message: want acquire")
	case err != nil:
		return nil, err
	}
	if err := understood(q); err != nil {
		return nil, err
	}
	asked, window := acquireOf(q.GetAcquire()), cmp.Or(q.GetWindowMs(), defaultWindow.Milliseconds())
	switch least, most := minWindow.Milliseconds(), maxTTL.Milliseconds(); {
	case asked.RequestID != "":
		return nil, invalid("request_id with a held stream: want none")
	case window < least || window > most:
		return nil, invalid(fmt.Sprintf("window_ms %d: want %d to %d", window, least, most))
	}
	asked.window = ms(window)
	return l.s.acquired(stream.Context(), callerIn(stream.Context()), asked)
}

// receive tells of each message of a holder, and of the end of its side.
func (l *locksService) receive(stream grpc.BidiStreamingServer[coordpb.HoldRequest, coordpb.HoldAnswer], asked chan<- error) {
	for {
		err := l.next(stream)
		select {
		case asked <- err:
		case <-stream.Context().Done(): // as it is when Hold has returned
			return
		}
		if err != nil {
			return
		}
	}
}

// next waits for the next message of a holder.
func (l *locksService) next(stream grpc.BidiStreamingServer[coordpb.HoldRequest, coordpb.HoldAnswer]) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = l.s.panicked(p)
		}
	}()
	q, err := stream.Recv()
	if err == nil && proto.Size(q) > 0 {
		return invalid("a message after the first: want no field in it")
	}
	return err
}
