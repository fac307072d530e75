package redis

import (
	"fmt"
	"strings"

	"github.com/coordgo/coord/driver"
)

// What may be met in place of a Redis server, and what to do about it.

// noInfo is the remedy where PING is answered and INFO is not known.
const noInfo = "INFO is not known: a proxy such as twemproxy or Envoy answers, which may spread locks over servers, or INFO was renamed: " +
	"give the address of the server itself; to keep INFO from a user, deny it by ACL"

// unfit refuses a server that says by INFO that it cannot keep locks.
func unfit(about map[string]string) error {
	if about["redis_mode"] == "sentinel" {
		return fmt.Errorf("%w: the server is a sentinel: use redis+sentinel://host:26379/MASTER, or redis:// with the port of the data", driver.ErrUnsupported)
	}
	if about["role"] == "active-replica" {
		return fmt.Errorf("%w: the server is an active replica of KeyDB: two of them grant a lock twice: use one server without active-replica", driver.ErrUnsupported)
	}
	return nil
}

// manyHosts says which URLs have several hosts.
func manyHosts(err error) error {
	if strings.Contains(err.Error(), "hosts: want one") {
		return fmt.Errorf("%w, or redis+cluster:// for the nodes of a cluster, or redis+sentinel://…/MASTER for sentinels", err)
	}
	return err
}
