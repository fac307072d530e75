package chaos

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"time"

	"github.com/coordgo/coord"
)

// victimEnv makes this program one that locks as a Mortal, and waits to be killed.
const victimEnv = "COORD_CHAOS_VICTIM"

type victim struct {
	URL string
	Mortal
}

// beVictim never returns. It ends with its standard input, too, which its parent has.
func beVictim(text string) {
	if err := takeAndTell(text); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	_, _ = io.Copy(io.Discard, os.Stdin)
	os.Exit(0)
}

// takeAndTell prints a line when it holds.
func takeAndTell(text string) error {
	var v victim
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	c, err := coord.Open(ctx, v.URL, coord.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		return err
	}
	if _, err = v.Lock(ctx, c); err == nil {
		_, err = fmt.Println("held")
	}
	return err
}

// diesOf starts a victim at the store that url names, and kills it once it holds.
func diesOf(url string) func(context.Context, Mortal) error {
	return func(ctx context.Context, m Mortal) error {
		text, err := json.Marshal(victim{url, m})
		if err != nil {
			return err
		}
		cmd := exec.CommandContext(ctx, os.Args[0])
		cmd.Env = append(os.Environ(), victimEnv+"="+string(text))
		var failed bytes.Buffer
		cmd.Stderr = &failed
		stdin, err := cmd.StdinPipe()
		if err != nil {
			return err
		}
		defer stdin.Close()
		stdout, err := cmd.StdoutPipe()
		if err != nil {
			return err
		}
		if err := cmd.Start(); err != nil {
			return err
		}
		_, told := bufio.NewReader(stdout).ReadString('\n')
		if told == nil {
			if err := cmd.Process.Kill(); err != nil {
				return err
			}
		}
		err = cmd.Wait()
		if told != nil {
			return fmt.Errorf("victim: %w: %v: %s", told, err, failed.String())
		}
		return nil
	}
}
