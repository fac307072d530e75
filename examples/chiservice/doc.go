// Package chiservice shows coord's middleware under chi, a router. Its test serves requests.
//
// Nothing is needed for it: chi takes any func(http.Handler) http.Handler.
package chiservice
