// Package house keeps the rules of this repository by test: who may import whom,
// which type of an engine may depend on which, that every package is documented, and that the documents do not point nowhere.
package house
