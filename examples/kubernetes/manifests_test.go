package kubernetes

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// read parses the manifests of a file, and refuses fields that Kubernetes does not know.
func read(t *testing.T, file string, into ...any) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	parts := strings.Split(string(text), "\n---\n")
	if len(parts) != len(into) {
		t.Fatalf("%s: %d manifests, want %d", file, len(parts), len(into))
	}
	for i, part := range parts {
		if err := yaml.UnmarshalStrict([]byte(part), into[i]); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
	}
}

// build compiles the command of this workspace.
func build(t *testing.T) string {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "coord")
	cmd := exec.Command("go", "build", "-o", binary, ".")
	cmd.Dir = "../../cmd/coord"
	cmd.Env = append(os.Environ(), "GOWORK=", "GOFLAGS=-trimpath") // as make test compiles
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return binary
}

// The command lines of the manifests run a command, in place of theirs, under their lock and with its token. A second pod of
// the CronJob finds the lock taken, and succeeds without running it.
func TestManifests(t *testing.T) {
	var job batchv1.CronJob
	read(t, "cronjob.yaml", &job)
	var deployment appsv1.Deployment
	read(t, "deployment.yaml", &deployment)
	sidecar := readSidecar(t)
	got, want := deployment.Spec.Template.Labels["app"], deployment.Spec.Selector.MatchLabels["app"]
	if got != want || job.Kind != "CronJob" || deployment.Kind != "Deployment" {
		t.Errorf("a %s and a %s; the selector wants %s and the pods are %s", job.Kind, deployment.Kind, want, got)
	}
	coord, url := build(t), "COORD_URL=file://"+t.TempDir()
	for _, tc := range []struct {
		c    corev1.Container
		want []string // what the pods say, one after the other
	}{
		{job.Spec.JobTemplate.Spec.Template.Spec.Containers[0], []string{"nightly has a token\n", ""}},
		{deployment.Spec.Template.Spec.Containers[0], []string{"scheduler has a token\n", "scheduler has a token\n"}},
		{sidecar, []string{"ledger has a token\n", "ledger has a token\n"}},
	} {
		c := tc.c
		if !slices.Equal(c.Command, []string{"/usr/local/bin/coord"}) {
			t.Errorf("command %v: the Dockerfile puts coord elsewhere", c.Command)
		}
		flags := c.Args[:slices.Index(c.Args, "--")+1]
		for i, want := range tc.want {
			cmd := exec.Command(coord, append(slices.Clone(flags), "sh", "-c", "echo $COORD_LOCK has a ${COORD_TOKEN:+token}")...)
			cmd.Env = append(os.Environ(), url)
			if out, err := cmd.Output(); err != nil || string(out) != want {
				t.Errorf("coord %v, pod %d: %v, %q: want %q", flags, i, err, out, want)
			}
		}
	}
}

// readSidecar gives the sidecar, which has to be one, and to be ready by the port that its command opens.
func readSidecar(t *testing.T) corev1.Container {
	t.Helper()
	var deployment appsv1.Deployment
	var service corev1.Service
	read(t, "sidecar.yaml", &deployment, &service)
	pod := deployment.Spec.Template
	if got, want := service.Spec.Selector["app"], pod.Labels["app"]; got != want || deployment.Spec.Selector.MatchLabels["app"] != want {
		t.Errorf("the service selects %s, the pods are %s", got, want)
	}
	c := pod.Spec.InitContainers[0]
	if c.RestartPolicy == nil || *c.RestartPolicy != corev1.ContainerRestartPolicyAlways {
		t.Errorf("restart policy %v: the pod would wait for the end of it", c.RestartPolicy)
	}
	if port := c.ReadinessProbe.TCPSocket.Port.String(); !slices.Contains(c.Args, port) {
		t.Errorf("ready by port %s, and the command is %v", port, c.Args)
	}
	return c
}
