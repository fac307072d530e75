package postgres

import (
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// warned is where a connection keeps what the server has warned of.
const warned = "coord: warned"

// keepWarning keeps a warning with its connection. It is for pgx.ConnConfig.
func keepWarning(c *pgconn.PgConn, n *pgconn.Notice) {
	if n.SeverityUnlocalized == "WARNING" {
		c.CustomData()[warned] = n.Message
	}
}

// forgetWarnings forgets those of the greeting, and of others.
func forgetWarnings(c *pgx.Conn) { delete(c.PgConn().CustomData(), warned) }

// heedWarning makes the outcome of a statement unknown that succeeded with a warning. So PostgreSQL tells that somebody has
// cancelled the wait of a commit for its replica, which lacks it. Statements of coord give no other warnings.
func heedWarning(c *pgx.Conn, err error) error {
	if text := c.PgConn().CustomData()[warned]; err == nil && text != nil {
		return fmt.Errorf("postgres: the server warns: %v", text)
	}
	return err
}
