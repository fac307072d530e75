// Package serve has files that run coord serve beside programs in other languages: with Docker Compose, and as a sidecar of a
// pod. The test reads them with the types of Kubernetes and of coord, and has compose read its own.
package serve
