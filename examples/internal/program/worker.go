package program

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
)

// What a process is told by the one that started it.
const (
	envName   = "COORD_EXAMPLE_NAME"
	envURL    = "COORD_EXAMPLE_URL"
	envPrefix = "COORD_EXAMPLE_PREFIX"
	envDir    = "COORD_EXAMPLE_DIR"
)

// words are the lines of standard input.
type words chan string

type wordsKey struct{}

// work runs work until it is done, or its input ends: then whoever started it wants it to end, or has gone.
func (p *Program) work(ctx context.Context, work func(context.Context, *Program) error) error {
	heard := make(words, 64)
	ctx, cancel := context.WithCancel(context.WithValue(ctx, wordsKey{}, heard))
	defer cancel()
	go func() {
		defer cancel()
		for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
			select {
			case heard <- lines.Text():
			case <-ctx.Done():
				return
			}
		}
	}()
	if err := work(ctx, p); !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// Word waits for the next word that this process is told.
func (p *Program) Word(ctx context.Context) (string, error) {
	heard, ok := ctx.Value(wordsKey{}).(words)
	if !ok {
		return "", errors.New("this process was started by nobody who could tell it anything")
	}
	select {
	case word := <-heard:
		return word, nil
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

// Ready says that this process can begin, and waits until it is told to.
func (p *Program) Ready(ctx context.Context) error {
	if _, err := io.WriteString(os.Stdout, ready+"\n"); err != nil {
		return err
	}
	_, err := p.Word(ctx)
	return err
}

// Tell tells the process that started this one what happened.
func (p *Program) Tell(event any) error { return json.NewEncoder(os.Stdout).Encode(event) }
