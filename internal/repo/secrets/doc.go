// Package secrets tests that no password of a store's URL is told: not in an error, a log, a span, a metric or Info.
package secrets
