package storeurl

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
)

// Explain adds to an error of the network or of TLS, from opening the store, what is likely to be wrong with the URL, in
// one sentence in front. It returns any other error as it is. errors.Is and errors.As see no difference.
func (u URL) Explain(err error) error {
	if err == nil {
		return nil
	}
	if remedy := u.remedy(err); remedy != "" {
		return fmt.Errorf("%s: %w", remedy, err)
	}
	return err
}

// certificates are what clients and servers say of certificates. Some client libraries keep only the text of an error.
var certificates = []struct{ text, remedy string }{
	{"x509: certificate signed by unknown authority", "the server's certificate is of an unknown authority: give tls_ca"},
	{"certificate is not trusted", "the server's certificate is of an unknown authority: give tls_ca"},
	{"x509: certificate is valid for ", "the server's certificate is for another name: give tls_server_name"},
	{"x509: cannot validate certificate for ", "the server's certificate is for another name: give tls_server_name"},
	{"x509: certificate is not valid for any names", "the server's certificate is for another name: give tls_server_name"},
	{"x509: certificate has expired", "the server's certificate has expired: renew it"},
	{"tls: certificate required", "the server wants a certificate of the client: give tls_cert and tls_key"},
	{"tls: bad certificate", "the server refused the certificate of the client, or wants one: check tls_cert and tls_key"},
	{"tls: unknown certificate authority", "the server refused the certificate of the client: check tls_cert and tls_key"},
}

func (u URL) remedy(err error) string {
	text := err.Error()
	has := func(parts ...string) bool {
		for _, part := range parts {
			if strings.Contains(text, part) {
				return true
			}
		}
		return false
	}
	for _, c := range certificates {
		if has(c.text) {
			return c.remedy
		}
	}
	var n net.Error
	late := errors.As(err, &n) && n.Timeout() || errors.Is(err, context.DeadlineExceeded) ||
		has("context deadline exceeded", "i/o timeout", "use of closed network connection") // gRPC closes what does not answer
	closed := text == "EOF" || has(": EOF", "EOF\"", "unexpected EOF", "connection reset by peer", "broken pipe")
	switch {
	case has("connection refused"):
		return "nothing listens there: check host and port, and that the server runs"
	case has("no such host", "server misbehaving"):
		return "the name of the host is not known: check it"
	case has("first record does not look like a TLS handshake"), closed && u.TLS != nil && has("handshake"):
		return fmt.Sprintf("the port does not speak TLS: use %s://, or the port for TLS", u.other)
	case closed && u.TLS != nil:
		return "the server closed the connection: check the port, and whether it wants tls_cert and tls_key"
	case closed && u.other != "":
		return fmt.Sprintf("the server closed the connection: check the port; if it speaks TLS, use %s://", u.other)
	case has("can't parse", "http2: frame too large", `line from "add": "-ERR`):
		return fmt.Sprintf("the server does not speak the protocol of %s: check the port", u.scheme)
	case late && u.TLS != nil:
		return fmt.Sprintf("no answer in time: check host and port; if the port does not speak TLS, use %s://", u.other)
	case late:
		return "no answer in time: check host, port and firewall"
	}
	return ""
}
