module github.com/coordgo/coord/server

go 1.26.0

require (
	github.com/coordgo/coord v0.1.0
	github.com/santhosh-tekuri/jsonschema/v6 v6.0.3
	go.opentelemetry.io/otel v1.25.0
	go.opentelemetry.io/otel/metric v1.25.0
	go.uber.org/goleak v1.3.0
	golang.org/x/net v0.61.0
)

require (
	go.yaml.in/yaml/v3 v3.0.6 // indirect
	golang.org/x/text v0.43.0 // indirect
)
