//go:build !scripted

package main

import (
	"bytes"
	"io"
	"mime/multipart"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/axle-llm/axle/internal/lane"
)

// TestImmich: the program answers Immich on the address that it is given, and ends in order. An
// address that is taken is an error that names the flag.
func TestImmich(t *testing.T) {
	lane.NoRace(t)
	addr := freeAddr(t)
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	serve := func(out io.Writer) *exec.Cmd {
		cmd := exec.Command(exe, "serve", "--device", "soft", "--immich", addr)
		cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "AXLE_TEST_MAIN=1", "AXLE_HOST=" + freeAddr(t),
			"AXLE_MODELS=" + t.TempDir()}
		cmd.Stdout, cmd.Stderr = out, out
		return cmd
	}
	cmd := serve(&said)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	gone := make(chan error, 1)
	go func() { gone <- cmd.Wait() }()
	get := func(r *http.Response, err error) (int, string) {
		if err != nil {
			return 0, err.Error()
		}
		defer r.Body.Close()
		b, err := io.ReadAll(r.Body)
		if err != nil {
			return 0, err.Error()
		}
		return r.StatusCode, string(b)
	}
	defer http.DefaultClient.CloseIdleConnections()
	for end := time.Now().Add(patience); ; <-time.After(5 * time.Millisecond) {
		code, body := get(http.Get("http://" + addr + "/ping"))
		if code == 200 && body == "pong" {
			break
		}
		if time.Now().After(end) {
			_ = cmd.Process.Kill()
			t.Fatalf("%d %s; %v; it said\n%s", code, body, <-gone, said.String())
		}
	}
	var form bytes.Buffer
	w := multipart.NewWriter(&form)
	_ = w.WriteField("entries", `{"ocr":{"detection":{"modelName":"PP-OCRv5_mobile"},"recognition":{"modelName":"PP-OCRv5_mobile"}}}`)
	_ = w.WriteField("text", "x")
	_ = w.Close()
	if code, body := get(http.Post("http://"+addr+"/predict", w.FormDataContentType(), &form)); code != 501 ||
		!strings.HasPrefix(body, `{"detail":"the task \"ocr\" is not served`) {
		t.Errorf("%d %s", code, body)
	}
	var second bytes.Buffer
	if err := serve(&second).Run(); err == nil || !strings.Contains(second.String(), "--immich: listen tcp "+addr) {
		t.Errorf("the address is taken: %v\n%s", err, second.String())
	}
	_ = cmd.Process.Signal(syscall.SIGTERM)
	if err := <-gone; err != nil || t.Failed() {
		t.Errorf("the server ended with %v; it said\n%s", err, said.String())
	}
}
