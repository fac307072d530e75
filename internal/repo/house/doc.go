// Package house keeps the rules of this repository by test: who may import whom, which versions modules require, that
// every package is documented, and that links in the documents lead somewhere.
package house
