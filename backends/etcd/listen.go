package etcd

import (
	"context"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// listen watches the doorbell until Close. While it does not, nothing is handed over.
//
// The stream is not one of the client library's watches, for those mend themselves without a
// word: a client has to know when it cannot hear.
func (b *backend) listen() {
	const least, most = 10 * time.Millisecond, 30 * time.Second
	pause := least
	for {
		began := time.Now()
		if heard := b.listenOnce(); heard && time.Since(began) > time.Second {
			pause = least
		}
		b.blinded(0, false)
		if sleep(b.life, pause) != nil {
			return
		}
		pause = min(2*pause, most)
	}
}

// listenOnce watches until the stream breaks, and reports whether there was a watch. Whatever
// the error was, it is tried again.
func (b *backend) listenOnce() (heard bool) {
	ctx, cancel := context.WithCancel(clientv3.WithRequireLeader(b.life))
	var pulse sync.WaitGroup
	defer pulse.Wait()
	defer cancel()
	stream, err := pb.NewWatchClient(b.client.ActiveConnection()).Watch(ctx, failFast)
	if err != nil {
		return heard
	}
	create := &pb.WatchCreateRequest{Key: []byte(b.names.doorbell(b.box))}
	if err := stream.Send(&pb.WatchRequest{RequestUnion: &pb.WatchRequest_CreateRequest{CreateRequest: create}}); err != nil {
		return heard
	}
	pulse.Go(func() { b.feelPulse(ctx, cancel, stream) })
	for {
		resp, err := stream.Recv()
		switch {
		case err != nil, resp.Canceled:
			return heard
		case resp.Created:
			heard = true
			// Whatever is put from the next revision on comes in.
			b.blinded(resp.Header.GetRevision(), true)
		}
		b.mu.Lock()
		b.bell.unsure = false
		b.mu.Unlock()
		for _, ev := range resp.Events {
			b.hear(ev)
		}
	}
}

// hear takes in what became of the doorbell.
func (b *backend) hear(ev *mvccpb.Event) {
	if ev.Type == mvccpb.DELETE {
		return // the lease of whoever rang last
	}
	if key, revision, ok := readRing(string(ev.Kv.Value)); ok {
		b.rung(key, revision)
	} else {
		b.blinded(ev.Kv.ModRevision, true)
	}
}

// pulseEvery is how often a client that locks makes sure that it would hear the doorbell, and how long
// it waits for the sign.
const pulseEvery = 5 * time.Second

// feelPulse ends the stream if the server keeps silent on it: a member that hangs pushes nothing,
// while other requests go to others. A client that does not lock asks nothing.
func (b *backend) feelPulse(ctx context.Context, cancel context.CancelFunc, stream pb.Watch_WatchClient) {
	b.mu.Lock()
	b.bell.unsure = true // it has not said yet that the watch is there
	every := b.bell.pulse
	b.mu.Unlock()
	for sleep(ctx, every) == nil {
		b.mu.Lock()
		silent, used := b.bell.unsure, b.bell.used
		b.bell.used, b.bell.unsure = false, used
		b.mu.Unlock()
		if silent {
			cancel()
			return
		}
		if !used {
			continue
		}
		if stream.Send(&pb.WatchRequest{RequestUnion: &pb.WatchRequest_ProgressRequest{ProgressRequest: &pb.WatchProgressRequest{}}}) != nil {
			return // Recv tells why
		}
	}
}
