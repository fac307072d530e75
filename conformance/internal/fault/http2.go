package fault

import (
	"encoding/binary"
	"io"
)

// NewHTTP2Proxy is NewProxy for a server that speaks HTTP/2 without TLS, as gRPC does. What such a server sends next
// need not belong to a reply: it sends pings, acknowledgements and window updates, also before it has looked at a
// request. DropReply therefore breaks the connection at the first frame that is part of a reply.
func NewHTTP2Proxy(target string) (*Proxy, error) { return newProxy(target, readFrame) }

// readFrame reads a frame that the server sends (RFC 9113, section 4.1), and tells whether it is part of a reply.
func readFrame(server io.Reader, _ []byte) (frame []byte, reply bool, err error) {
	const data, headers = 0x0, 0x1
	head := make([]byte, 9) // length in three bytes, type, flags, stream in four
	if _, err := io.ReadFull(server, head); err != nil {
		return nil, false, err
	}
	length := binary.BigEndian.Uint32(head[:4]) >> 8
	frame = append(head, make([]byte, length)...)
	if _, err := io.ReadFull(server, frame[len(head):]); err != nil {
		return nil, false, err
	}
	return frame, head[3] == data || head[3] == headers, nil
}
