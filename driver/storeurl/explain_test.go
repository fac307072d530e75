package storeurl

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/coordgo/coord/driver"
)

// The texts of the client libraries, with and without TLS. internal/repo/mistakes has them from the servers.
func TestExplain(t *testing.T) {
	var record tls.RecordHeaderError
	record.Msg = "first record does not look like a TLS handshake"
	refused := &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
	grpc := func(text string) error { return errors.New("rpc error: code = Unavailable desc = " + text) }
	for _, tt := range []struct {
		err           error
		plain, secure string
	}{
		{refused, "nothing listens there", "nothing listens there"},
		{&net.DNSError{Err: "no such host", Name: "h"}, "the name of the host is not known", "the name of the host is not known"},
		{io.EOF, "check the port; if it speaks TLS, use stores://", "check the port, and whether it wants tls_cert"},
		{fmt.Errorf("TLS handshake: %w", io.EOF), "", "the port does not speak TLS: use store://, or"},
		{grpc(`"transport: authentication handshake failed: EOF"`), "", "the port does not speak TLS: use store://, or"},
		{record, "", "the port does not speak TLS: use store://, or"},
		{syscall.ECONNRESET, "check the port; if it speaks TLS, use stores://", "check the port"},
		{context.DeadlineExceeded, "no answer in time: check host, port and firewall", "if the port does not speak TLS, use store://"},
		{os.ErrDeadlineExceeded, "no answer in time", "no answer in time"},
		{errors.New("tls: failed to verify certificate: x509: certificate signed by unknown authority"), "", "give tls_ca"},
		{errors.New("remote error: tls: certificate required"), "", "give tls_cert and tls_key"},
		{grpc(`"error reading server preface: http2: frame too large"`), "does not speak the protocol of store", "does not speak"},
		{errors.New("something else"), "", ""},
	} {
		for raw, want := range map[string]string{"store://h": tt.plain, "stores://h": tt.secure} {
			parsed, err := driver.ParseURL(raw)
			if err != nil {
				t.Fatal(err)
			}
			u, err := Parse(parsed, Spec{Scheme: "store", TLSScheme: "stores", DefaultPort: "1"})
			if err != nil {
				t.Fatal(err)
			}
			got := u.Explain(tt.err)
			if !errors.Is(got, tt.err) || !strings.Contains(got.Error(), want) || want == "" && raw == "stores://h" && got != tt.err {
				t.Errorf("%s, %v: %v, want %q", raw, tt.err, got, want)
			}
		}
	}
	if err := (URL{}).Explain(nil); err != nil {
		t.Error(err)
	}
}
