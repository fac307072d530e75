module github.com/coordgo/coord

go 1.26.0

require (
	github.com/anishathalye/porcupine v1.3.1
	github.com/santhosh-tekuri/jsonschema/v6 v6.0.3
	go.uber.org/goleak v1.3.0
	go.yaml.in/yaml/v3 v3.0.6
	golang.org/x/sys v0.20.0
	pgregory.net/rapid v1.3.0
)

require golang.org/x/text v0.14.0 // indirect
