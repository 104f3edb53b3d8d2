package kubernetes

import (
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	apps "k8s.io/api/apps/v1"
	plugin "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

// kubelet is what the device plugin registers with.
type kubelet struct {
	plugin.UnimplementedRegistrationServer
	asked chan *plugin.RegisterRequest
}

func (k *kubelet) Register(_ context.Context, r *plugin.RegisterRequest) (*plugin.Empty, error) {
	k.asked <- r
	return &plugin.Empty{}, nil
}

// TestKubelet plays the kubelet for the device plugin with the manifest's own arguments: a machine has
// one card, with the nodes that are there. AXLE_DEVICE_PLUGIN is the plugin's program.
func TestKubelet(t *testing.T) {
	program := os.Getenv("AXLE_DEVICE_PLUGIN")
	if program == "" {
		t.Skip("SKIPPED: AXLE_DEVICE_PLUGIN names no generic-device-plugin: no kubelet is played for it")
	}
	args := build(t, "k3s")["DaemonSet/card-plugin"].(*apps.DaemonSet).Spec.Template.Spec.Containers[0].Args
	needed := []string{"axcl_host", "msg_userdev", "ax_mmb_dev"}
	for _, c := range []struct {
		name  string
		nodes []string
		cards int
	}{
		{"one card", needed, 1},
		{"several cards", append(slices.Clone(needed), "p2p", "ax_pcie_dma_transfer"), 1},
		{"no driver", needed[:2], 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			dev, dir := t.TempDir(), t.TempDir()
			for _, n := range c.nodes {
				if err := os.WriteFile(filepath.Join(dev, n), nil, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			l, err := net.Listen("unix", filepath.Join(dir, "kubelet.sock"))
			if err != nil {
				t.Fatal(err)
			}
			k := &kubelet{asked: make(chan *plugin.RegisterRequest, 8)}
			s := grpc.NewServer()
			plugin.RegisterRegistrationServer(s, k)
			go func() { _ = s.Serve(l) }()
			defer s.Stop()
			own := slices.Clone(args)
			own[3] = strings.ReplaceAll(own[3], "/dev/", dev+"/")
			cmd := exec.CommandContext(t.Context(), program, append(own, "--plugin-directory", dir, "--listen", "127.0.0.1:0")...)
			cmd.Dir, cmd.Stdout, cmd.Stderr = dir, t.Output(), t.Output()
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			var asked *plugin.RegisterRequest
			select {
			case asked = <-k.asked:
			case <-ctx.Done():
				t.Fatal("it does not register")
			}
			if asked.ResourceName != "axle.dev/card" || asked.Version != plugin.Version {
				t.Errorf("it registers %+v", asked)
			}
			conn, err := grpc.NewClient("unix:"+filepath.Join(dir, asked.Endpoint), grpc.WithTransportCredentials(insecure.NewCredentials()))
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			client := plugin.NewDevicePluginClient(conn)
			watch, err := client.ListAndWatch(ctx, &plugin.Empty{})
			if err != nil {
				t.Fatal(err)
			}
			list, err := watch.Recv()
			if err != nil || len(list.Devices) != c.cards {
				t.Fatalf("it lists %v, %v; want %d cards", list, err, c.cards)
			}
			if c.cards == 0 {
				return
			}
			given, err := client.Allocate(ctx, &plugin.AllocateRequest{ContainerRequests: []*plugin.ContainerAllocateRequest{
				{DevicesIds: []string{list.Devices[0].ID}}}})
			if err != nil || len(given.ContainerResponses) != 1 {
				t.Fatalf("it gives %v, %v", given, err)
			}
			var got []string
			for _, d := range given.ContainerResponses[0].Devices {
				if got = append(got, filepath.Base(d.ContainerPath)); d.HostPath != d.ContainerPath || d.Permissions != "mrw" {
					t.Errorf("%+v", d)
				}
			}
			if !slices.Equal(got, c.nodes) {
				t.Errorf("a pod gets %q, want %q", got, c.nodes)
			}
		})
	}
}
