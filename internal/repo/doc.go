// Package repo has no code. The packages below it are about this repository: they compile its documents, keep its rules, and run
// long tests on many stores. They are a module of their own, which is never released.
package repo
