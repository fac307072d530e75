package serve

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/coordgo/coord/config"
)

// commandLine is what the entry point of coord's image gets.
var commandLine = []string{"serve", "--config", "/etc/coord/coord.yaml"}

func text(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// The Dockerfile of coord has the command as its entry point, so that arguments are all that the files give.
func TestImage(t *testing.T) {
	if text := text(t, "../../Dockerfile"); !strings.Contains(text, "\nENTRYPOINT [\"/coord\"]\n") {
		t.Errorf("the image has another entry point:\n%s", text)
	}
}

// The sidecar is one, with a configuration that coord takes and that is for its pod alone.
func TestSidecar(t *testing.T) {
	parts := strings.Split(text(t, "sidecar.yaml"), "\n---\n")
	var configMap corev1.ConfigMap
	var deployment appsv1.Deployment
	for i, into := range []any{&configMap, &deployment} {
		if err := yaml.UnmarshalStrict([]byte(parts[i]), into); err != nil {
			t.Fatal(err)
		}
	}
	pod := deployment.Spec.Template
	c := pod.Spec.InitContainers[0]
	if c.RestartPolicy == nil || *c.RestartPolicy != corev1.ContainerRestartPolicyAlways {
		t.Errorf("restart policy %v: the pod would wait for the end of it", c.RestartPolicy)
	}
	if len(c.Command) > 0 || !slices.Equal(c.Args, commandLine) {
		t.Errorf("command %v, arguments %v", c.Command, c.Args)
	}
	mount, volume := c.VolumeMounts[0], pod.Spec.Volumes[0]
	if mount.Name != volume.Name || volume.ConfigMap.Name != configMap.Name || mount.MountPath != filepath.Dir(commandLine[2]) {
		t.Errorf("%v of %v, for %s", mount, volume, configMap.Name)
	}
	cfg, err := config.Parse("coord.yaml", []byte(configMap.Data["coord.yaml"]))
	if err != nil {
		t.Fatal(err)
	}
	served := cfg.Serve.WithDefaults()
	if url := "http://" + served.Listen; !served.Local() || pod.Spec.Containers[0].Env[0].Value != url {
		t.Errorf("it listens on %s, and the application asks %v", served.Listen, pod.Spec.Containers[0].Env)
	}
	if grace := *pod.Spec.TerminationGracePeriodSeconds; float64(grace) <= served.Drain.Seconds() {
		t.Errorf("%d s to end, of which coord wants %v", grace, served.Drain)
	}
	if labels := deployment.Spec.Selector.MatchLabels["app"]; labels != pod.Labels["app"] {
		t.Errorf("the selector is %s", labels)
	}
}

// compose is what this test reads of a compose file.
type compose struct {
	Services map[string]struct {
		Image           string            `json:"image"`
		Command         []string          `json:"command"`
		Environment     map[string]string `json:"environment"`
		Volumes         []string          `json:"volumes"`
		StopGracePeriod string            `json:"stop_grace_period"`
	} `json:"services"`
}

// The services of compose have the tokens, the files and the address of the configuration.
func TestCompose(t *testing.T) {
	var file compose
	if err := yaml.Unmarshal([]byte(text(t, "compose.yaml")), &file); err != nil {
		t.Fatal(err)
	}
	coord := file.Services["coord"]
	if !slices.Equal(coord.Command, commandLine) {
		t.Errorf("coord runs with %v", coord.Command)
	}
	cfg, err := config.Load("coord.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range cfg.Serve.Callers {
		name := strings.ToUpper(c.Name) + "_TOKEN"
		if given := coord.Environment[name]; string(c.Token) != "${"+name+"}" || !strings.HasPrefix(given, "${"+name+":?") {
			t.Errorf("%s: coord has the token %q", c.Name, given)
		}
		environment := fmt.Sprint(file.Services[c.Name].Environment)
		if !strings.Contains(environment, "${"+name+"}") {
			t.Errorf("%s has no token: %s", c.Name, environment)
		}
	}
	for name, s := range file.Services {
		for _, v := range s.Volumes {
			from, _, _ := strings.Cut(v, ":")
			if _, err := os.Stat(from); err != nil && strings.HasPrefix(from, ".") {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	if s := file.Services["backup"].Command[0]; text(t, "../shell/"+filepath.Base(s)) == "" {
		t.Error(s)
	}
}

// Compose itself takes the file, and refuses it without the tokens.
func TestComposeConfig(t *testing.T) {
	args := []string{"docker-compose"}
	if exec.Command("docker", "compose", "version").Run() == nil {
		args = []string{"docker", "compose"}
	} else if _, err := exec.LookPath("docker-compose"); err != nil {
		t.Skip("unsupported: there is no Docker Compose here")
	}
	args = append(args, "-f", "compose.yaml", "config")
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Env = append(os.Environ(), "API_TOKEN=0123456789abcdef", "BACKUP_TOKEN=")
	if out, err := cmd.CombinedOutput(); err == nil {
		t.Errorf("without a token: %s", out)
	}
	cmd = exec.Command(args[0], args[1:]...)
	cmd.Env = append(os.Environ(), "API_TOKEN=0123456789abcdef", "BACKUP_TOKEN=0123456789abcdeg")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
