package server_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/axle-llm/axle/models/store"
	"github.com/axle-llm/axle/server"
	"github.com/axle-llm/axle/server/local"
	"github.com/axle-llm/axle/server/scripted"
)

// Two network namespaces and a wire between them, as Docker makes them on Linux: a program in one
// reaches the server in the other under the names that a container has for its host, a compose
// file's service, and the names of home networks. A name that can be registered is refused in words
// that both sides see; what listens on loopback is out of reach.
func TestContainer(t *testing.T) {
	//proves:T4 from a container
	if _, err := exec.LookPath("ip"); err != nil {
		t.Skip("SKIPPED, not tested: without iproute2 there is no wire between two namespaces: ", err)
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), exe)
	cmd.Env = append(os.Environ(), childEnv+"="+asHost, "TMPDIR="+t.TempDir(), "NO_PROXY=*", "no_proxy=*")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER | syscall.CLONE_NEWNET | syscall.CLONE_NEWNS,
		Pdeathsig:   syscall.SIGKILL,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}}
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	if err := cmd.Start(); errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EINVAL) {
		t.Skip("SKIPPED, not tested: this system gives us no namespaces: ", err)
	} else if err != nil {
		t.Fatal(err)
	}
	err = cmd.Wait()
	if strings.Contains(said.String(), notPermitted) {
		t.Skip("SKIPPED, not tested: ", said.String())
	}
	if err != nil {
		t.Fatalf("%v: %s", err, said.String())
	}
	var visits []visit
	if err := json.Unmarshal(out.Bytes(), &visits); err != nil || len(visits) != len(visited()) {
		t.Fatalf("%v in %s\n%s", err, out.String(), said.String())
	}
	for i, v := range visits {
		switch want := visited()[i]; {
		case want.code == 0 && v.Err == "", want.code != v.Code, !strings.Contains(v.Body, want.says):
			t.Errorf("%s: got %d %s %s, want %d %s", v.URL, v.Code, v.Body, v.Err, want.code, want.says)
		}
	}
	if s := said.String(); strings.Count(s, "--allow-host llm.example") != 1 || !strings.Contains(s, insideAddr) {
		t.Errorf("the server's log: %s", s)
	}
}

// The two sides of TestContainer, each this program again in namespaces of its own.
const (
	asHost      = "host"
	asContainer = "container"
	bridgeAddr  = "172.17.0.1" // Docker's own addresses
	insideAddr  = "172.17.0.2"
)

// visit is what a container asked, and what it got.
type visit struct {
	URL  string
	Code int    `json:",omitempty"`
	Body string `json:",omitempty"`
	Err  string `json:",omitempty"`
}

const notPermitted = "not permitted here"

// visited are the addresses a container tries, and what it should hear.
func visited() (out []struct {
	url, says string
	code      int
}) {
	add := func(url string, code int, says string) {
		out = append(out, struct {
			url, says string
			code      int
		}{url, says, code})
	}
	for _, name := range []string{"host.docker.internal", "host.containers.internal", "axle", "raspberrypi.local", "pi.lan", "pi.home.arpa",
		bridgeAddr} {
		add("http://"+name+":11434/api/version", 200, "0.34.4")
	}
	add("http://host.docker.internal:11434/api/chat", 200, `"done":true`)
	add("http://llm.example:11434/api/version", 403, "--allow-host llm.example")
	add("http://host.docker.internal:11435/api/version", 0, "")
	return out
}

// netHost is the machine: it serves on all addresses and on loopback, starts the container, and
// lays the wire.
func netHost() error {
	dir := os.TempDir()
	st, err := store.Open(store.Options{Dir: filepath.Join(dir, "models"), Builtin: scripted.Builtin()})
	if err != nil {
		return err
	}
	log := zap.New(zapcore.NewCore(zapcore.NewJSONEncoder(zap.NewProductionEncoderConfig()), zapcore.Lock(os.Stderr), zapcore.WarnLevel))
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if err := ip("link", "set", "lo", "up"); err != nil {
		return fmt.Errorf("%s: %w", notPermitted, err)
	}
	for addr, loopback := range map[string]bool{"0.0.0.0:11434": false, "127.0.0.1:11435": true} {
		ln, err := net.Listen("tcp", addr)
		if err != nil {
			return err
		}
		s := server.New(local.New(st, local.Options{Describe: scripted.Describe}), &scripted.Loader{}, nil,
			server.Options{Loopback: loopback, Log: log})
		go func() { _ = s.Serve(ctx, ln, time.Millisecond) }()
	}
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), childEnv+"="+asContainer)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	start, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("%s: %w", notPermitted, err)
	}
	for _, args := range [][]string{
		{"link", "add", "veth0", "type", "veth", "peer", "name", "eth0", "netns", fmt.Sprint(cmd.Process.Pid)},
		{"addr", "add", bridgeAddr + "/16", "dev", "veth0"},
		{"link", "set", "veth0", "up"},
	} {
		if err := ip(args...); err != nil {
			return errors.Join(fmt.Errorf("%s: %w", notPermitted, err), cmd.Process.Kill(), cmd.Wait())
		}
	}
	_ = start.Close() // the wire is there
	return cmd.Wait()
}

// netContainer is a program in the container. Its hosts file is the one that Docker would write.
func netContainer() error {
	_, _ = io.Copy(io.Discard, os.Stdin)
	hosts := filepath.Join(os.TempDir(), "hosts")
	text := "127.0.0.1 localhost\n" + bridgeAddr +
		" host.docker.internal host.containers.internal axle raspberrypi.local pi.lan pi.home.arpa llm.example\n"
	if err := os.WriteFile(hosts, []byte(text), 0o644); err != nil {
		return err
	}
	err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, "")
	if err == nil {
		err = syscall.Mount(hosts, "/etc/hosts", "", syscall.MS_BIND, "")
	}
	for _, args := range [][]string{{"link", "set", "lo", "up"}, {"addr", "add", insideAddr + "/16", "dev", "eth0"},
		{"link", "set", "eth0", "up"}} {
		if err == nil {
			err = ip(args...)
		}
	}
	if err != nil {
		return fmt.Errorf("%s: %w", notPermitted, err)
	}
	var out []visit
	for _, v := range visited() {
		got := visit{URL: v.url}
		var resp *http.Response
		if strings.HasSuffix(v.url, "/api/chat") {
			resp, err = http.Post(v.url, "application/json", strings.NewReader(chatBody("scripted-chat", "[[say:hello]]", "")))
		} else {
			resp, err = http.Get(v.url)
		}
		if err != nil {
			got.Err = err.Error()
		} else {
			b, _ := io.ReadAll(resp.Body)
			_ = resp.Body.Close()
			got.Code, got.Body = resp.StatusCode, string(b)
		}
		out = append(out, got)
	}
	return json.NewEncoder(os.Stdout).Encode(out)
}

// ip runs iproute2 in this process's namespaces.
func ip(args ...string) error {
	out, err := exec.Command("ip", args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("ip %s: %w: %s", strings.Join(args, " "), err, bytes.TrimSpace(out))
	}
	return nil
}
