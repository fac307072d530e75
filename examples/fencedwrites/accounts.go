package main

import (
	"context"
	"database/sql"
	"fmt"
	"net/url"
	"path/filepath"

	_ "modernc.org/sqlite"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/examples/internal/program"
)

// open opens the database that the processes share.
func open(p *program.Program) (*sql.DB, error) {
	file := url.URL{Scheme: "file", Opaque: filepath.ToSlash(filepath.Join(p.Dir, "bank.db")), RawQuery: "_pragma=busy_timeout(10000)"}
	return sql.Open("sqlite", file.String())
}

func create(ctx context.Context, db *sql.DB) error {
	if _, err := db.ExecContext(ctx, `CREATE TABLE accounts (id INTEGER PRIMARY KEY, balance INTEGER NOT NULL, token BIGINT NOT NULL)`); err != nil {
		return err
	}
	_, err := db.ExecContext(ctx, `INSERT INTO accounts VALUES (7, ?, 0)`, deposit)
	return err
}

func read(ctx context.Context, db *sql.DB) (balance int, err error) {
	err = db.QueryRowContext(ctx, `SELECT balance FROM accounts WHERE id = 7`).Scan(&balance)
	return balance, err
}

// write is the guarded write. It is ErrLost if a later holder of the lock has written.
func write(ctx context.Context, db *sql.DB, balance int, token coord.Token) error {
	if *withoutGuard {
		_, err := db.ExecContext(ctx, `UPDATE accounts SET balance = ? WHERE id = 7`, balance)
		return err
	}
	done, err := db.ExecContext(ctx, `UPDATE accounts SET balance = ?, token = ? WHERE id = 7 AND token <= ?`, balance, token, token)
	if err != nil {
		return err
	}
	if rows, err := done.RowsAffected(); err != nil || rows == 1 {
		return err
	}
	return fmt.Errorf("%w: token %d is not the latest", coord.ErrLost, token)
}
