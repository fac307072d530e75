module github.com/coordgo/coord/backends/zookeeper

go 1.26.0

require (
	github.com/coordgo/coord v0.1.0
	github.com/go-zookeeper/zk v1.0.4
	go.uber.org/goleak v1.3.0
)

require github.com/anishathalye/porcupine v1.3.1 // indirect
