package main

import (
	"testing"

	"github.com/coordgo/coord/examples/internal/exampletest"
)

func TestMain(m *testing.M) { exampletest.Main(m, main) }

func TestAllItemsPassInOrder(t *testing.T) {
	exampletest.Kept(t, "taken, in this order: ABCDEFGHIJKLMNOPQRSTUVWXYZABCDEFGHIJKLMN ")
}

func TestWithoutWaitingTheBufferOverflows(t *testing.T) { exampletest.Broken(t, "--without-wait") }
