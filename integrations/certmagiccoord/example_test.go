package certmagiccoord_test

import (
	"context"
	"fmt"

	"github.com/caddyserver/certmagic"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/backends/memory"
	"github.com/coordgo/coord/integrations/certmagiccoord"
)

// newStorage stores certificates in files, and locks on the store of client.
func newStorage(client *coord.Client, dir string) certmagic.Storage {
	return certmagiccoord.NewStorage(&certmagic.FileStorage{Path: dir}, client)
}

func ExampleNewStorage() {
	client, err := coord.New(memory.New())
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()
	storage := newStorage(client, "certificates") // for certmagic.Config, or certmagic.Default.Storage
	fmt.Println(storage.Lock(context.Background(), "shop.example"))
	fmt.Println(storage.Unlock(context.Background(), "shop.example"))
	// Output:
	// <nil>
	// <nil>
}
