package main

import (
	_ "embed"
	"encoding/json"
	"html/template"
	"maps"
	"net/http"
	"slices"
	"strings"
)

//go:embed openapi.json
var description []byte

//go:embed page.html
var pageText string

var page = template.Must(template.New("page").Parse(pageText))

func serveDescription(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(description) // the client has gone if it fails
}

// servePage shows the description to people. The page needs nothing from elsewhere.
func servePage(w http.ResponseWriter, r *http.Request) {
	a, err := parseAPI(description)
	if err != nil {
		problem(w, http.StatusInternalServerError, "the description cannot be read")
		return
	}
	a.Base = "http://" + r.Host
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_ = page.Execute(w, a) // the client has gone if it fails
}

// api is what the page shows of openapi.json.
type api struct {
	Info       struct{ Title, Description string }
	Operations []operation
	Base       string
}

type operation struct {
	Method, Path, OperationID, Summary, Description string
	Query                                           string
	Headers                                         []string
	Replies                                         []described
}

// described is a reply, or a parameter, or a reference to one.
type described struct {
	Ref                            string `json:"$ref"`
	Name, In, Example, Description string
	Status                         string
}

// parseAPI reads as much of an OpenAPI document as the page shows.
func parseAPI(text []byte) (*api, error) {
	var doc struct {
		api
		Paths      map[string]map[string]json.RawMessage
		Components struct{ Responses map[string]described }
	}
	if err := json.Unmarshal(text, &doc); err != nil {
		return nil, err
	}
	for _, path := range slices.Sorted(maps.Keys(doc.Paths)) {
		for _, method := range []string{"post", "get", "put", "delete"} {
			raw, ok := doc.Paths[path][method]
			if !ok {
				continue
			}
			var o struct {
				operation
				Parameters []described
				Responses  map[string]described
			}
			if err := json.Unmarshal(raw, &o); err != nil {
				return nil, err
			}
			o.Method, o.Path = strings.ToUpper(method), path
			for _, p := range o.Parameters {
				switch p.In {
				case "query":
					o.Query = "?" + p.Name + "=" + p.Example
				case "header":
					o.Headers = append(o.Headers, p.Name)
				}
			}
			for _, status := range slices.Sorted(maps.Keys(o.Responses)) {
				reply := o.Responses[status]
				if _, name, ok := strings.Cut(reply.Ref, "#/components/responses/"); ok {
					reply = doc.Components.Responses[name]
				}
				reply.Status = status
				o.Replies = append(o.Replies, reply)
			}
			doc.Operations = append(doc.Operations, o.operation)
		}
	}
	return &doc.api, nil
}
