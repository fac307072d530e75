// Command quickstart serves invoices. The rules in coord.yaml limit each user.
package main

import (
	"context"
	"log"
	"net/http"

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"

	_ "github.com/coordgo/coord/backends/all"
	"github.com/coordgo/coord/config"
	"github.com/coordgo/coord/httpcoord"
)

func main() {
	client, err := config.Open(context.Background(), "coord.yaml")
	if err != nil {
		log.Fatal(err)
	}
	log.Fatal(http.ListenAndServe("localhost:8080", router(client)))
}

// router checks the password first, and then the limits of the user.
func router(client *config.Client) http.Handler {
	limits := httpcoord.Limits{Limiter: client, Rules: httpcoord.Live(client.Rules), User: user}
	r := chi.NewRouter()
	r.Use(middleware.BasicAuth("shop", map[string]string{"ann": "secret", "bob": "secret"}))
	r.Use(limits.Wrap)
	r.Get("/invoices", func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusNoContent)
	})
	return r
}

// user is the name that BasicAuth has checked.
func user(r *http.Request) string {
	name, _, _ := r.BasicAuth()
	return name
}
