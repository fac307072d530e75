package server

import (
	"encoding/json"
	"reflect"
	"strings"

	"github.com/coordgo/coord"
)

// object is a JSON object.
type object = map[string]any

// describe is openapi.json: the operations with the types that their handlers read and write.
func describe(all []operation) []byte {
	d := &describer{schemas: object{}}
	failed := object{"description": "An error", "content": jsonOf(d.schema(reflect.TypeFor[problem]()))}
	paths := object{}
	for _, op := range all {
		paths[op.path] = object{"post": object{
			"operationId": strings.ReplaceAll(strings.TrimPrefix(op.path, "/v1/"), "/", "_"),
			"summary":     op.summary,
			"requestBody": object{"required": true, "content": jsonOf(d.schema(op.request))},
			"responses": object{
				"200":     object{"description": "It is done, or decided", "content": jsonOf(d.schema(op.answer))},
				"default": failed,
			},
		}}
	}
	paths["/v1/locks/hold"] = object{"post": object{
		"operationId": "locks_hold",
		"summary":     "Hold keys for as long as the connection lasts: one event held, and error when the hold ends",
		"requestBody": object{"required": true, "content": jsonOf(d.schema(reflect.TypeFor[acquireRequest]()))},
		"responses":   object{"200": eventsOf(d.schema(reflect.TypeFor[streamAnswer]())), "default": failed},
	}}
	parameter := func(name string, required bool) object {
		return object{"name": name, "in": "query", "required": required, "schema": object{"type": "string"}}
	}
	paths["/v1/locks/watch"] = object{"get": object{
		"operationId": "locks_watch",
		"summary":     "Watch who holds a key: an event holders now and after each change, and error while the store does not answer",
		"parameters":  []object{parameter("key", true), parameter("mode", false)},
		"responses":   object{"200": eventsOf(d.schema(reflect.TypeFor[holdersAnswer]())), "default": failed},
	}}
	text, err := json.MarshalIndent(object{
		"openapi":    "3.1.0",
		"info":       object{"title": "coord serve", "version": "1", "description": "Locks and limits; see docs/serve.md"},
		"security":   []object{{}, {"token": []string{}}},
		"paths":      paths,
		"components": object{"schemas": d.schemas, "securitySchemes": object{"token": object{"type": "http", "scheme": "bearer"}}},
	}, "", "  ")
	if err != nil {
		panic(err) // it is made of maps and strings
	}
	return append(text, '\n')
}

func jsonOf(schema object) object {
	return object{"application/json": object{"schema": schema}}
}

// eventsOf are server-sent events whose data is as the schema says.
func eventsOf(schema object) object {
	return object{"description": "Server-sent events", "content": object{"text/event-stream": object{"schema": schema}}}
}

// describer makes schemas of types.
type describer struct{ schemas object }

func (d *describer) schema(t reflect.Type) object {
	switch {
	case t == reflect.TypeFor[coord.Token]():
		return object{"type": "string", "pattern": "^[0-9]+$"}
	case t.Kind() == reflect.Pointer:
		return d.schema(t.Elem())
	case t.Kind() == reflect.Slice:
		return object{"type": "array", "items": d.schema(t.Elem())}
	case t.Kind() == reflect.Struct && t.NumField() > 0 && t.Name() != "Time":
		return d.structure(t)
	}
	switch t.Kind() {
	case reflect.String:
		return object{"type": "string"}
	case reflect.Bool:
		return object{"type": "boolean"}
	case reflect.Int, reflect.Int64:
		return object{"type": "integer"}
	}
	return object{"type": "string", "format": "date-time"}
}

// structure refers to the schema of a type.
func (d *describer) structure(t reflect.Type) object {
	ref := object{"$ref": "#/components/schemas/" + t.Name()}
	if d.schemas[t.Name()] != nil {
		return ref
	}
	properties, required := object{}, []string{}
	d.schemas[t.Name()] = object{"type": "object", "additionalProperties": false, "properties": properties}
	for _, f := range fieldsOf(t) {
		p := d.schema(f.Type)
		if doc := f.Tag.Get("doc"); doc != "" {
			p["description"] = doc
		}
		if values := f.Tag.Get("enum"); values != "" {
			p["enum"] = strings.Split(values, ",")
		}
		properties[f.name] = p
		if f.required {
			required = append(required, f.name)
		}
	}
	if len(required) > 0 {
		d.schemas[t.Name()].(object)["required"] = required
	}
	return ref
}
