// Command forgotten opens a store whose package it does not import, and says what comes of it.
package main

import (
	"context"
	"fmt"

	"github.com/coordgo/coord"
)

func main() {
	_, err := coord.Open(context.Background(), "redis://localhost:6379")
	fmt.Println(err)
}
