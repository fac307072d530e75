// Package kubernetes has manifests that run a command under coord: a CronJob with coord lock, a Deployment of which one pod
// works, with coord lead, and a sidecar that leads for an application that does not know coord. The test reads them with the
// types of Kubernetes, and runs their command lines with coord.
package kubernetes
