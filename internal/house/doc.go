// Package house keeps the rules of this repository by test: who may import whom,
// that every package is documented, and that the documents do not point nowhere.
package house
