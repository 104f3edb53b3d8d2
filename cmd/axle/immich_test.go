//go:build !scripted

package main

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"image"
	"image/png"
	"io"
	"math"
	"mime/multipart"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/axle-llm/axle/internal/lane"
	"github.com/axle-llm/axle/models/modelstest"
)

// TestImmich: the program answers Immich on the address that it is given, with the vectors that its
// own API has of the same model, and ends in order. An address that is taken is an error that names
// the flag.
func TestImmich(t *testing.T) {
	lane.NoRace(t)
	place := t.TempDir()
	if err := (modelstest.CLIP{Seed: 1, Layout: "CLIP", Dims: 24}).Write(filepath.Join(place, "clip-vit-l-14-336")); err != nil {
		t.Fatal(err)
	}
	addr, own := freeAddr(t), freeAddr(t)
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	serve := func(host string, out io.Writer) *exec.Cmd {
		cmd := exec.Command(exe, "serve", "--device", "soft", "--immich", addr)
		cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "AXLE_TEST_MAIN=1", "AXLE_HOST=" + host,
			"AXLE_MODELS=" + t.TempDir(), "AXLE_MODEL_PATH=" + place}
		cmd.Stdout, cmd.Stderr = out, out
		return cmd
	}
	cmd := serve(own, &said)
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
	predict := func(entries, text string, picture []byte) (int, string) {
		var form bytes.Buffer
		w := multipart.NewWriter(&form)
		_ = w.WriteField("entries", entries)
		if picture == nil {
			_ = w.WriteField("text", text)
		} else if part, err := w.CreateFormFile("image", "blob"); err == nil {
			_, _ = part.Write(picture)
		}
		_ = w.Close()
		return get(http.Post("http://"+addr+"/predict", w.FormDataContentType(), &form))
	}
	img := image.NewGray(image.Rect(0, 0, 60, 40))
	for i := range img.Pix {
		img.Pix[i] = uint8(i % 60 * 4)
	}
	var picture bytes.Buffer
	if err := png.Encode(&picture, img); err != nil {
		t.Fatal(err)
	}
	const entries = `{"clip":{"%s":{"modelName":"ViT-L-14-336__openai"}}}`
	coded := base64.StdEncoding.EncodeToString(picture.Bytes())
	for _, tt := range []struct {
		kind, input string
		picture     []byte
	}{{"textual", `"a red car"`, nil}, {"visual", `{"image":"` + coded + `"}`, picture.Bytes()}} {
		var seen struct {
			Clip                    string
			ImageWidth, ImageHeight int
		}
		var v []float32
		code, body := predict(fmt.Sprintf(entries, tt.kind), "a red car", tt.picture)
		if err := json.Unmarshal([]byte(body), &seen); err != nil || code != 200 {
			t.Fatalf("%s: %d %s", tt.kind, code, body)
		}
		if err := json.Unmarshal([]byte(seen.Clip), &v); err != nil || len(v) != 24 {
			t.Errorf("%s: %v: %s", tt.kind, err, body)
		}
		if tt.picture != nil && (seen.ImageWidth != 60 || seen.ImageHeight != 40) {
			t.Errorf("%s: %s", tt.kind, body)
		}
		code, body = get(http.Post("http://"+own+"/v1/embeddings", "application/json",
			strings.NewReader(`{"model":"clip-vit-l-14-336","input":`+tt.input+`}`)))
		var want struct {
			Data []struct{ Embedding []float32 }
		}
		if err := json.Unmarshal([]byte(body), &want); err != nil || len(want.Data) != 1 || len(want.Data[0].Embedding) != len(v) {
			t.Fatalf("%s: %d %s", tt.kind, code, body)
		}
		length := 0.0
		for _, x := range v {
			length += float64(x) * float64(x)
		}
		for i, x := range want.Data[0].Embedding {
			if got := float64(v[i]) / math.Sqrt(length); math.Abs(got-float64(x)) > 1e-5 {
				t.Errorf("%s: value %d is %g, and %g in a vector of length 1 of its own API", tt.kind, i, got, x)
			}
		}
	}
	if code, body := predict(`{"ocr":{"detection":{"modelName":"a"},"recognition":{"modelName":"a"}}}`, "x", nil); code != 501 ||
		!strings.HasPrefix(body, `{"detail":"the task \"ocr\" is not served`) {
		t.Errorf("%d %s", code, body)
	}
	var second bytes.Buffer
	if err := serve(freeAddr(t), &second).Run(); err == nil || !strings.Contains(second.String(), "--immich: listen tcp "+addr) {
		t.Errorf("the address is taken: %v\n%s", err, second.String())
	}
	_ = cmd.Process.Signal(syscall.SIGTERM)
	if err := <-gone; err != nil || t.Failed() {
		t.Errorf("the server ended with %v; it said\n%s", err, said.String())
	}
}
