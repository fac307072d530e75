package guide

import (
	"context"
	"iter"
	"strings"

	"github.com/coordgo/coord"
)

// What an application does under its locks and limits. Tests put something into done.
var done = func(context.Context, string) error { return nil }

func writeInvoices(ctx context.Context) error { return done(ctx, "invoices") }
func writeExport(ctx context.Context) error   { return done(ctx, "export") }
func writeReport(ctx context.Context) error   { return done(ctx, "report") }
func dispatch(ctx context.Context) error      { return done(ctx, "dispatch") }
func discardExport() error                    { return done(context.Background(), "discard") }

func dispatchNext(ctx context.Context, _ coord.Token) error { return done(ctx, "next") }

// model streams the answer of a language model: texts, and how many tokens each is.
func model(ctx context.Context, prompt string) iter.Seq2[string, int] {
	return func(yield func(string, int) bool) {
		for word := range strings.FieldsSeq(prompt) {
			if ctx.Err() != nil || done(ctx, word) != nil || !yield(word, 40) {
				return
			}
		}
	}
}
