// Package stores tests what packages of the root module do on real stores, whose clients are not in that module's go.mod.
package stores
