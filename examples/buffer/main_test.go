package main

import (
	"strings"
	"testing"

	"github.com/coordgo/coord/examples/internal/exampletest"
)

func TestMain(m *testing.M) { exampletest.Main(m, main) }

func TestAllItemsPassInOrder(t *testing.T) {
	exampletest.On(t, exampletest.Stores, func(t *testing.T, url string) {
		said := exampletest.Kept(t, "--url", url)
		if !strings.Contains(said, "taken, in this order: ABCDEFGHIJKLMNOPQRSTUVWXYZABCDEFGHIJKLMN ") {
			t.Error("it does not say that all items were taken in order")
		}
	})
}

func TestWithoutWaitingTheBufferOverflows(t *testing.T) {
	exampletest.Broken(t, "--without-wait")
}
