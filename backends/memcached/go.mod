module github.com/coordgo/coord/backends/memcached

go 1.26.0

require (
	github.com/bradfitz/gomemcache v0.0.0-20250403215159-8d39553ac7cf
	github.com/coordgo/coord v0.1.0
	go.uber.org/goleak v1.3.0
)

require github.com/anishathalye/porcupine v1.3.1 // indirect
