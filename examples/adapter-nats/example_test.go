package natskv_test

import (
	"context"
	"fmt"

	"github.com/coordgo/coord"
	_ "github.com/coordgo/coord/examples/adapter-nats"
)

func Example() {
	client, err := coord.Open(context.Background(), "nats://localhost:4222/coord?replicas=1")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()
}
