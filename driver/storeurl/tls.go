package storeurl

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/url"
	"os"
	"strconv"

	"github.com/coordgo/coord/driver"
)

// tlsParams are the parameters of a connection over TLS: PEM files of the
// authorities and of the client's own certificate and key, the name on the server's
// certificate, and whether to take any certificate.
var tlsParams = []string{"tls_ca", "tls_cert", "tls_insecure", "tls_key", "tls_server_name"}

func tlsConfig(hosts []string, query url.Values) (*tls.Config, error) {
	c := &tls.Config{ServerName: query.Get("tls_server_name"), MinVersion: tls.VersionTLS12}
	if c.ServerName == "" && len(hosts) == 1 {
		host, _, err := net.SplitHostPort(hosts[0])
		if err != nil {
			return nil, fmt.Errorf("%w: host %q: %w", driver.ErrInvalid, hosts[0], err)
		}
		c.ServerName = host
	}
	if v := query.Get("tls_insecure"); v != "" {
		insecure, err := strconv.ParseBool(v)
		if err != nil {
			return nil, fmt.Errorf("%w: parameter tls_insecure=%q: want true or false", driver.ErrInvalid, v)
		}
		c.InsecureSkipVerify = insecure
	}
	if file := query.Get("tls_ca"); file != "" {
		pem, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("%w: parameter tls_ca: %w", driver.ErrInvalid, err)
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("%w: parameter tls_ca: %s has no PEM certificate", driver.ErrInvalid, file)
		}
	}
	cert, key := query.Get("tls_cert"), query.Get("tls_key")
	if (cert == "") != (key == "") {
		return nil, fmt.Errorf("%w: parameters tls_cert and tls_key: want both or none", driver.ErrInvalid)
	}
	if cert != "" {
		pair, err := tls.LoadX509KeyPair(cert, key)
		if err != nil {
			return nil, fmt.Errorf("%w: parameters tls_cert and tls_key: %w", driver.ErrInvalid, err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c, nil
}
