// Package kubernetes checks the manifests of packaging/kubernetes: each overlay is built and decoded
// strictly with the types that Kubernetes and its extensions have, and what a probe or a plugin reads
// is held against its value. It is a module of its own, so that the program does not depend on any of
// it.
package kubernetes

import (
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	rbac "k8s.io/api/rbac/v1"
	inference "sigs.k8s.io/gateway-api-inference-extension/api/v1"
	gateway "sigs.k8s.io/gateway-api/apis/v1"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

// kinds are the types of all objects there may be.
var kinds = map[string]func() any{
	"v1/Namespace":                                 func() any { return new(core.Namespace) },
	"v1/Service":                                   func() any { return new(core.Service) },
	"v1/ServiceAccount":                            func() any { return new(core.ServiceAccount) },
	"v1/ConfigMap":                                 func() any { return new(core.ConfigMap) },
	"apps/v1/DaemonSet":                            func() any { return new(apps.DaemonSet) },
	"apps/v1/Deployment":                           func() any { return new(apps.Deployment) },
	"networking.k8s.io/v1/NetworkPolicy":           func() any { return new(networking.NetworkPolicy) },
	"rbac.authorization.k8s.io/v1/Role":            func() any { return new(rbac.Role) },
	"rbac.authorization.k8s.io/v1/RoleBinding":     func() any { return new(rbac.RoleBinding) },
	"monitoring.coreos.com/v1/ServiceMonitor":      func() any { return new(monitoring.ServiceMonitor) },
	"inference.networking.k8s.io/v1/InferencePool": func() any { return new(inference.InferencePool) },
	"gateway.networking.k8s.io/v1/HTTPRoute":       func() any { return new(gateway.HTTPRoute) },
}

// TestOverlays: every overlay has its objects, all in one namespace, and no field that its type does
// not know.
func TestOverlays(t *testing.T) {
	base := "DaemonSet/axle DaemonSet/card-plugin Namespace/axle NetworkPolicy/axle Service/axle Service/axle-metrics"
	for overlay, more := range map[string]string{
		"one-board": "", "k3s": "ServiceMonitor/axle",
		"llm-d": "ServiceMonitor/axle ServiceAccount/picker Role/picker RoleBinding/picker Deployment/picker Service/picker ConfigMap/picker " +
			"InferencePool/axle HTTPRoute/axle",
	} {
		want := strings.Fields(base + " " + more)
		slices.Sort(want)
		var got []string
		for name := range build(t, overlay) {
			got = append(got, name)
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("%s has %q, want %q", overlay, got, want)
		}
	}
}

// TestStrict: a field that a type does not know is found.
func TestStrict(t *testing.T) {
	for _, text := range []string{
		"apiVersion: apps/v1\nkind: DaemonSet\nspec: {template: {spec: {terminationGracePeriodSecond: 5}}}",
		"apiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\nspec: {parentRef: []}",
	} {
		if _, err := decode([]byte(text)); err == nil || !strings.Contains(err.Error(), "unknown field") {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// TestServer: what probes, the kubelet and the plugin read of the server.
func TestServer(t *testing.T) {
	for _, overlay := range []string{"one-board", "k3s", "llm-d"} {
		all := build(t, overlay)
		pod := all["DaemonSet/axle"].(*apps.DaemonSet).Spec.Template.Spec
		c := pod.Containers[0]
		for _, p := range []struct {
			name            string
			probe           *core.Probe
			path            string
			period, timeout int32
			failures        int32
		}{{"startup", c.StartupProbe, "/livez", 5, 0, 60}, {"readiness", c.ReadinessProbe, "/readyz", 2, 2, 1}, {"liveness", c.LivenessProbe,
			"/livez", 20, 5, 3}} {
			if g := p.probe.HTTPGet; g == nil || g.Path != p.path || g.Port.StrVal != "http" || p.probe.PeriodSeconds != p.period ||
				p.probe.TimeoutSeconds != p.timeout || p.probe.FailureThreshold != p.failures {
				t.Errorf("%s: the %s probe is %+v", overlay, p.name, p.probe)
			}
		}
		if s := c.Lifecycle.PreStop.Sleep; s == nil || s.Seconds != 5 || *pod.TerminationGracePeriodSeconds != 330 {
			t.Errorf("%s: the end: %+v, %d s", overlay, c.Lifecycle, *pod.TerminationGracePeriodSeconds)
		}
		if n := c.Resources.Limits["axle.dev/card"]; n.Value() != 1 {
			t.Errorf("%s: %d cards", overlay, n.Value())
		}
		s, ps := c.SecurityContext, pod.SecurityContext
		if *s.AllowPrivilegeEscalation || !*s.ReadOnlyRootFilesystem || s.Privileged != nil || !reflect.DeepEqual(s.Capabilities,
			&core.Capabilities{Drop: []core.Capability{"ALL"}, Add: []core.Capability{"IPC_LOCK", "SYS_NICE"}}) || !*ps.RunAsNonRoot ||
			*ps.RunAsUser != 11434 || !slices.Equal(ps.SupplementalGroups, []int64{11434}) ||
			ps.SeccompProfile.Type != core.SeccompProfileTypeRuntimeDefault || *pod.AutomountServiceAccountToken {
			t.Errorf("%s: the security context is %+v %+v", overlay, s, ps)
		}
		ports := map[string]int32{}
		for _, p := range c.Ports {
			ports[p.Name] = p.ContainerPort
		}
		want := map[string]int32{"http": 11434, "metrics": 9091}
		if overlay == "llm-d" {
			want["events"], want["replay"] = 5557, 5558
		}
		if !reflect.DeepEqual(ports, want) {
			t.Errorf("%s: ports %v", overlay, ports)
		}
		env := map[string]string{}
		for _, e := range c.Env {
			if env[e.Name] = e.Value; e.ValueFrom != nil && e.ValueFrom.FieldRef != nil {
				env[e.Name] = e.ValueFrom.FieldRef.FieldPath
			}
		}
		for name, value := range map[string]string{"OLLAMA_HOST": "0.0.0.0:11434", "AXLE_METRICS_ADDR": ":9091", "AXLE_NODE": "spec.nodeName",
			"AXLE_MODELS": "/var/lib/axle/models"} {
			if env[name] != value {
				t.Errorf("%s: %s is %q", overlay, name, env[name])
			}
		}
		if has := env["AXLE_KV_EVENTS"] != ""; has != (overlay == "llm-d") || has && env["AXLE_KV_EVENTS_ALLOW"] == "" {
			t.Errorf("%s: events at %q for %q", overlay, env["AXLE_KV_EVENTS"], env["AXLE_KV_EVENTS_ALLOW"])
		}
		mounts := map[string]bool{}
		for _, v := range pod.Volumes {
			mounts[v.Name] = true
		}
		for _, m := range c.VolumeMounts {
			if !mounts[m.Name] || m.Name == "axcl" && !m.ReadOnly {
				t.Errorf("%s: %+v", overlay, m)
			}
		}
		if label := pod.NodeSelector["axle.dev/card"]; (label == "true") == (overlay == "one-board") {
			t.Errorf("%s: the node has the label %q", overlay, label)
		}
		selects(t, overlay, all)
		who(t, overlay, all["NetworkPolicy/axle"].(*networking.NetworkPolicy))
	}
}

// TestPlugin: the device plugin gives a pod the three nodes of the cards, and the two others where
// they are there.
func TestPlugin(t *testing.T) {
	c := build(t, "k3s")["DaemonSet/card-plugin"].(*apps.DaemonSet).Spec.Template.Spec.Containers[0]
	if len(c.Args) != 4 || c.Args[0] != "--domain" || c.Args[1] != "axle.dev" || c.Args[2] != "--device" {
		t.Fatalf("%q", c.Args)
	}
	type path struct {
		Path     string `json:"path"`
		Optional bool   `json:"optional"`
	}
	var device struct {
		Name   string `json:"name"`
		Groups []struct {
			Count int    `json:"count"`
			Paths []path `json:"paths"`
		} `json:"groups"`
	}
	if err := yaml.UnmarshalStrict([]byte(c.Args[3]), &device); err != nil {
		t.Fatal(err)
	}
	want := []path{{"/dev/axcl_host", false}, {"/dev/msg_userdev", false}, {"/dev/ax_mmb_dev", false}, {"/dev/p2p", true},
		{"/dev/ax_pcie_dma_transfer", true}}
	if device.Name != "card" || len(device.Groups) != 1 || device.Groups[0].Count != 1 || !slices.Equal(device.Groups[0].Paths, want) {
		t.Errorf("%+v", device)
	}
	if m := c.VolumeMounts; len(m) != 2 || m[0].MountPath != "/var/lib/kubelet/device-plugins" || m[1].MountPath != "/dev" ||
		!*c.SecurityContext.Privileged {
		t.Errorf("%+v", m)
	}
}

// TestPicker: the route leads to the pool, the pool to the picker and the servers, and the picker's
// configuration to the servers' ports.
func TestPicker(t *testing.T) {
	all := build(t, "llm-d")
	route, pool := all["HTTPRoute/axle"].(*gateway.HTTPRoute), all["InferencePool/axle"].(*inference.InferencePool)
	to := route.Spec.Rules[0].BackendRefs[0]
	if string(*to.Group) != inference.GroupName || string(*to.Kind) != "InferencePool" || string(to.Name) != pool.Name || *to.Port != 11434 {
		t.Errorf("the route leads to %+v", to)
	}
	picker := pool.Spec.EndpointPickerRef
	if string(picker.Name) != "picker" || picker.Port.Number != 9002 || pool.Spec.TargetPorts[0].Number != 11434 {
		t.Errorf("the pool is %+v", pool.Spec)
	}
	d := all["Deployment/picker"].(*apps.Deployment).Spec.Template.Spec
	config := all["ConfigMap/picker"].(*core.ConfigMap)
	if d.Volumes[0].ConfigMap.Name != config.Name || !slices.Contains(d.Containers[0].Args, "/etc/picker/picker-config.yaml") ||
		d.Containers[0].ReadinessProbe.GRPC.Port != 9003 {
		t.Errorf("%+v", d)
	}
	var c struct {
		Plugins []struct {
			Type       string
			Parameters map[string]any
		}
		DataLayer          any `json:"dataLayer"`
		SchedulingProfiles []struct {
			Plugins []struct {
				PluginRef string `json:"pluginRef"`
				Weight    int
			}
		} `json:"schedulingProfiles"`
	}
	if err := yaml.Unmarshal([]byte(config.Data["picker-config.yaml"]), &c); err != nil {
		t.Fatal(err)
	}
	weights, text := map[string]int{}, config.Data["picker-config.yaml"]
	for _, p := range c.SchedulingProfiles[0].Plugins {
		weights[p.PluginRef] = p.Weight
		if !slices.ContainsFunc(c.Plugins, func(q struct {
			Type       string
			Parameters map[string]any
		}) bool {
			return q.Type == p.PluginRef
		}) {
			t.Errorf("the profile has %s, which is no plugin", p.PluginRef)
		}
	}
	if weights["active-request-scorer"] != 2 || weights["prefix-cache-scorer"] != 2 || weights["lora-affinity-scorer"] != 4 {
		t.Errorf("weights %v", weights)
	}
	for _, part := range []string{"blockSize: 64", "socketPort: 5557", "replaySocketPort: 5558", "loraSpec: axle_models_info",
		"queuedRequestsSpec: axle_requests_waiting", "runningRequestsSpec: axle_requests_running", "kvUsageSpec: axle_kv_usage_ratio",
		"http://axle-metrics.axle.svc.cluster.local:9091"} {
		if !strings.Contains(text, part) {
			t.Errorf("the picker's configuration lacks %s", part)
		}
	}
}

// TestRows: with the component for rows every overlay has the folder's limit, the secret as a file that
// the pod's group reads, and the store's place and keys; what an overlay had of its own stays.
func TestRows(t *testing.T) {
	for _, overlay := range []string{"one-board", "k3s", "llm-d"} {
		fsys := filesys.MakeFsInMemory()
		for _, dir := range []string{"base", "components/monitoring", "components/rows", "overlays/" + overlay} {
			copyDir(t, fsys, dir)
		}
		if err := fsys.WriteFile("with/kustomization.yaml", []byte("resources: [../overlays/"+overlay+"]\ncomponents: [../components/rows]\n")); err != nil {
			t.Fatal(err)
		}
		all := buildIn(t, fsys, "with")
		pod := all["DaemonSet/axle"].(*apps.DaemonSet).Spec.Template.Spec
		c := pod.Containers[0]
		env := map[string]core.EnvVar{}
		for _, e := range c.Env {
			env[e.Name] = e
		}
		if env["AXLE_CACHE_DISK"].Value != "20GB" || env["AXLE_ROWS_SECRET"].Value != "/etc/axle/rows/secret" || env["AXLE_MODELS"].Value == "" ||
			env["AWS_SHARED_CREDENTIALS_FILE"].Value != "/etc/axle/rows/credentials" ||
			(env["AXLE_KV_EVENTS"].Value != "") != (overlay == "llm-d") {
			t.Errorf("%s: %+v", overlay, c.Env)
		}
		if e := env["AXLE_ROWS_OBJECTS"].ValueFrom; e == nil || e.SecretKeyRef.Name != "axle-rows" || e.SecretKeyRef.Key != "place" {
			t.Errorf("%s: the place is %+v", overlay, e)
		}
		m := c.VolumeMounts[slices.IndexFunc(c.VolumeMounts, func(m core.VolumeMount) bool { return m.Name == "rows" })]
		v := pod.Volumes[slices.IndexFunc(pod.Volumes, func(v core.Volume) bool { return v.Name == "rows" })].Secret
		if m.MountPath != "/etc/axle/rows" || !m.ReadOnly || v.SecretName != "axle-rows" || *v.DefaultMode != 0o400 || len(v.Items) != 2 ||
			*pod.SecurityContext.FSGroup != 11434 || !slices.Equal(pod.SecurityContext.SupplementalGroups, []int64{11434}) {
			t.Errorf("%s: %+v, %+v", overlay, m, v)
		}
		if len(c.VolumeMounts) != 4 || len(pod.Volumes) != 4 {
			t.Errorf("%s: %d mounts and %d volumes", overlay, len(c.VolumeMounts), len(pod.Volumes))
		}
	}
}

// copyDir copies a folder of the manifests.
func copyDir(t *testing.T, to filesys.FileSystem, dir string) {
	t.Helper()
	const from = "../../packaging/kubernetes/"
	files, err := os.ReadDir(from + dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		b, err := os.ReadFile(from + dir + "/" + f.Name())
		if err == nil {
			err = to.WriteFile(dir+"/"+f.Name(), b)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// build builds an overlay and decodes its objects.
func build(t *testing.T, overlay string) map[string]any {
	t.Helper()
	return buildIn(t, filesys.MakeFsOnDisk(), "../../packaging/kubernetes/overlays/"+overlay)
}

func buildIn(t *testing.T, fsys filesys.FileSystem, overlay string) map[string]any {
	t.Helper()
	made, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(fsys, overlay)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]any{}
	for _, r := range made.Resources() {
		text, err := r.AsYAML()
		if err != nil {
			t.Fatal(err)
		}
		o, err := decode(text)
		if err != nil {
			t.Fatalf("%s: %v in\n%s", overlay, err, text)
		}
		if ns := r.GetNamespace(); ns != "axle" && r.GetKind() != "Namespace" {
			t.Errorf("%s: %s %s is in the namespace %q", overlay, r.GetKind(), r.GetName(), ns)
		}
		name := r.GetName()
		if r.GetKind() == "ConfigMap" {
			name, _, _ = strings.Cut(name, "-") // a hash follows
		}
		all[r.GetKind()+"/"+name] = o
	}
	return all
}

// decode decodes an object strictly.
func decode(text []byte) (any, error) {
	var what struct{ APIVersion, Kind string }
	if err := yaml.Unmarshal(text, &what); err != nil {
		return nil, err
	}
	make, ok := kinds[what.APIVersion+"/"+what.Kind]
	if !ok {
		return nil, fmt.Errorf("%s %s is not in the list of kinds", what.APIVersion, what.Kind)
	}
	o := make()
	if err := yaml.UnmarshalStrict(text, o, func(d *json.Decoder) *json.Decoder { d.DisallowUnknownFields(); return d }); err != nil {
		return nil, err
	}
	return o, nil
}

// selects checks that services, pools and policies select pods that there are, by ports that they
// have.
func selects(t *testing.T, overlay string, all map[string]any) {
	t.Helper()
	pods := map[string]core.PodTemplateSpec{}
	for name, o := range all {
		switch o := o.(type) {
		case *apps.DaemonSet:
			pods[name] = o.Spec.Template
			if !subset(o.Spec.Selector.MatchLabels, o.Spec.Template.Labels) {
				t.Errorf("%s: %s does not select its pods", overlay, name)
			}
		case *apps.Deployment:
			pods[name] = o.Spec.Template
		}
	}
	for name, o := range all {
		s, ok := o.(*core.Service)
		if !ok {
			continue
		}
		found := 0
		for _, pod := range pods {
			if !subset(s.Spec.Selector, pod.Labels) {
				continue
			}
			found++
			for _, p := range s.Spec.Ports {
				if !slices.ContainsFunc(pod.Spec.Containers[0].Ports, func(c core.ContainerPort) bool { return c.Name == p.TargetPort.StrVal }) {
					t.Errorf("%s: %s leads to the port %q, which the pod has not", overlay, name, p.TargetPort.StrVal)
				}
			}
		}
		if found != 1 {
			t.Errorf("%s: %s selects %d kinds of pods", overlay, name, found)
		}
	}
}

// who checks that only the picker reaches the events.
func who(t *testing.T, overlay string, p *networking.NetworkPolicy) {
	t.Helper()
	for _, rule := range p.Spec.Ingress {
		for _, port := range rule.Ports {
			picker := len(rule.From) == 1 && rule.From[0].PodSelector != nil &&
				rule.From[0].PodSelector.MatchLabels["app.kubernetes.io/name"] == "picker"
			if n := port.Port.IntVal; (n == 5557 || n == 5558) && !picker || n == 9091 && len(rule.From) == 0 {
				t.Errorf("%s: port %d is open to %+v", overlay, n, rule.From)
			}
		}
	}
}

func subset(some, all map[string]string) bool {
	for k, v := range some {
		if all[k] != v {
			return false
		}
	}
	return len(some) > 0
}
