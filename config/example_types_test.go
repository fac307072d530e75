package config_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/config"
)

// A file is checked before anything is opened.
func ExampleConfig() {
	file, err := config.Parse("coord.yaml", []byte(`
url: redis://app:hunter2@redis.internal:6379/0
lock: {ttl: 10s, wait: 1m}
limits: {supplier: 2000/1m}
`))
	if err != nil {
		fmt.Println(err)
		return
	}
	supplier, err := file.Limit("supplier")
	fmt.Println(supplier, err)
	_, err = file.Limit("suplier")
	fmt.Println(errors.Is(err, coord.ErrInvalid))
	// Output:
	// 2000/1m <nil>
	// true
}

func ExampleLock() {
	file, err := config.Parse("coord.yaml", []byte(`
url: redis://app:hunter2@redis.internal:6379/0
lock: {ttl: 10s, wait: 1m}
limits: {supplier: 2000/1m}
`))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(file.Lock.TTL, file.Lock.Wait, file.Lock.Fair)
	// Output: 10s 1m0s false
}

// Nothing that is printed shows a password.
func ExampleURL() {
	file, err := config.Parse("coord.yaml", []byte(`
url: redis://app:hunter2@redis.internal:6379/0
lock: {ttl: 10s, wait: 1m}
limits: {supplier: 2000/1m}
`))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(file.URL)
	// Output: redis://xxxxx@redis.internal:6379/0
}

// What is in force, and where each value is from.
func ExampleValue() {
	file, err := config.Parse("coord.yaml", []byte(`
url: redis://app:hunter2@redis.internal:6379/0
lock: {ttl: 10s, wait: 1m}
limits: {supplier: 2000/1m}
`))
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, v := range file.Values() {
		if v.Key == "lock.ttl" || v.Key == "lock.fair" {
			fmt.Println(v.Key, v.Value, v.From)
		}
	}
	// Output:
	// lock.ttl 10s coord.yaml:3
	// lock.fair false default
}

// A mistake says where it is, and what is wanted there.
func ExampleError() {
	_, err := config.Parse("coord.yaml", []byte("url: memory://\nlock: {ttl: \"10\"}\n"))
	var mistake *config.Error
	if errors.As(err, &mistake) {
		fmt.Println(mistake.File, mistake.Line, mistake.Key)
	}
	fmt.Println(err)
	// Output:
	// coord.yaml 2 lock.ttl
	// coord.yaml:2: lock.ttl: "10": want a duration such as 30s
}

// A client follows its file: limits change while it runs.
func ExampleClient() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "coord")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "coord.yaml")
	write := func(rate string) error {
		return os.WriteFile(path, []byte("url: memory://\nlimits: {supplier: "+rate+"}\n"), 0o600)
	}
	if err := write("2000/1m"); err != nil {
		fmt.Println(err)
		return
	}
	client, err := config.Open(ctx, path)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()

	fmt.Println(client.Limit("supplier"))
	fmt.Println(write("1500/1m"), client.Reload(ctx))
	fmt.Println(client.Limit("supplier"))
	// Output:
	// 2000/1m <nil>
	// <nil> <nil>
	// 1500/1m <nil>
}

// Tokens are elsewhere, and nothing that is printed shows one.
func ExampleServe() {
	file, err := config.Parse("coord.yaml", []byte(`
serve:
  callers:
    - {name: web, token: "${WEB_TOKEN}", allow: [{prefix: web/, rights: [lock]}]}
`))
	if err != nil {
		fmt.Println(err)
		return
	}
	web := file.Serve.Callers[0]
	fmt.Println(web.Name, web.Token, web.Allow[0].Prefix, web.Allow[0].Rights)
	fmt.Println(file.Serve.WithDefaults().Listen, file.Serve.Local())
	// Output:
	// web xxxxx web/ [lock]
	// 127.0.0.1:8470 true
}
