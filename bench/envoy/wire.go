package main

import (
	"errors"
	"fmt"

	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
)

// frame is a message as it is on the wire. Requests are encoded once, and of answers only what is looked at is decoded, so that
// the caller leaves the processor to the services.
type frame []byte

// frames is a codec of messages that are bytes. It says that they are of Protocol Buffers, which they are.
type frames struct{}

var _ encoding.CodecV2 = frames{}

func (frames) Name() string { return "proto" }

func (frames) Marshal(v any) (mem.BufferSlice, error) {
	f, ok := v.(*frame)
	if !ok {
		return nil, fmt.Errorf("%T is no frame", v)
	}
	return mem.BufferSlice{mem.SliceBuffer(*f)}, nil
}

func (frames) Unmarshal(data mem.BufferSlice, v any) error {
	f, ok := v.(*frame)
	if !ok {
		return fmt.Errorf("%T is no frame", v)
	}
	*f = (*f)[:0]
	for _, b := range data {
		*f = append(*f, b.ReadOnlyData()...)
	}
	return nil
}

// protocol is how a service is asked, and what it answers.
type protocol struct {
	method  string
	request func(domain string, entries []entry) frame
	// read tells whether the request was let in, by an answer for so many limits.
	read func(answer frame, limits int) (admitted bool, err error)
}

// entry is what one limit counts by.
type entry struct{ key, value string }

var errAnswer = errors.New("the answer is not for what was asked")

func appendText(b []byte, field protowire.Number, text string) []byte {
	return protowire.AppendString(protowire.AppendTag(b, field, protowire.BytesType), text)
}

func appendMessage(b []byte, field protowire.Number, part []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(b, field, protowire.BytesType), part)
}

func appendInt(b []byte, field protowire.Number, n uint64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(b, field, protowire.VarintType), n)
}

// fields calls do for each field of a message: n is its value if that is a number, and part if it has a length.
func fields(b []byte, do func(field protowire.Number, n uint64, part []byte) error) error {
	for len(b) > 0 {
		field, kind, size := protowire.ConsumeTag(b)
		if size < 0 {
			return protowire.ParseError(size)
		}
		b = b[size:]
		var n uint64
		var part []byte
		switch kind {
		case protowire.VarintType:
			n, size = protowire.ConsumeVarint(b)
		case protowire.BytesType:
			part, size = protowire.ConsumeBytes(b)
		default:
			size = protowire.ConsumeFieldValue(field, kind, b)
		}
		if size < 0 {
			return protowire.ParseError(size)
		}
		if err := do(field, n, part); err != nil {
			return err
		}
		b = b[size:]
	}
	return nil
}

// message is what is looked at of a message: its fields up to 5, numbers by their value and others by their length.
type message [6]uint64

func look(b []byte) (m message, err error) {
	err = fields(b, func(field protowire.Number, n uint64, part []byte) error {
		if int(field) < len(m) {
			m[field] = n + uint64(len(part))
		}
		return nil
	})
	return m, err
}
