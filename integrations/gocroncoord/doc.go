// Package gocroncoord lets schedulers of gocron in many processes share their jobs: one process runs each.
//
// With [Locker] one process has each run of a job. With [Elector] one process runs all jobs. [Guarded] is for
// a job that must stop when its lock is lost, which gocron itself cannot tell it.
package gocroncoord
