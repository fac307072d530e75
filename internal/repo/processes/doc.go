// Package processes tests limits over many processes: all they were granted is written down on
// one clock, and counted in every period.
package processes
