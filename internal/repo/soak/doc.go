// Package soak counts what many keys, each used for a short time, leave behind in each store and in its client.
package soak
