// Package gocron shows gocron's Locker and Elector on coord: of the schedulers of many processes, one runs a job.
//
// [Locker] lets one process run each run of a job. [Elector] lets one process run all jobs. gocron does not tell a job that its
// lock was lost: a job that must stop then runs under [Guarded] instead.
package gocron
