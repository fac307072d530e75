// Package docsnippets keeps the code in the documents true: every block of Go on a
// page is part of a package below this one, which is compiled and tested.
package docsnippets
