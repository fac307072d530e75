//go:build unix

package main_test

import (
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

// envRecorder makes the test binary a command that tells the signals which it gets.
const envRecorder = "COORD_TEST_RECORDER"

// record tells each signal and each line of its input, and ends with 9 at the end
// of its input.
func record() int {
	names := map[os.Signal]string{
		syscall.SIGTERM: "TERM", syscall.SIGINT: "INT", syscall.SIGQUIT: "QUIT", syscall.SIGHUP: "HUP",
		syscall.SIGUSR1: "USR1", syscall.SIGUSR2: "USR2",
	}
	signals := make(chan os.Signal, 64)
	for sig := range names {
		signal.Notify(signals, sig)
	}
	lines := make(chan string)
	go readLines(os.Stdin, lines)
	fmt.Println("up")
	for {
		select {
		case sig := <-signals:
			fmt.Println(names[sig])
		case line, ok := <-lines:
			if !ok {
				return 9
			}
			fmt.Println(line)
		}
	}
}
