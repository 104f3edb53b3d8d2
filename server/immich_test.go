package server_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"net"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/axle-llm/axle/server"
	"github.com/axle-llm/axle/server/access"
	"github.com/axle-llm/axle/server/local"
	"github.com/axle-llm/axle/server/scripted"
)

const predict = "/predict"

// immichKind is the content type of a form as Node's fetch sends it, which Immich's server calls.
const (
	immichBoundary = "----formdata-undici-035174902386"
	immichKind     = "multipart/form-data; boundary=" + immichBoundary
	immichEnd      = "--" + immichBoundary + "--\r\n"
)

// What Immich's server asks (server/src/repositories/machine-learning.repository.ts).
const (
	encodeText  = `{"clip":{"textual":{"modelName":"ViT-B-32__openai","options":{"language":"en"}}}}`
	encodeImage = `{"clip":{"visual":{"modelName":"ViT-B-32__openai"}}}`
	detectFaces = `{"facial-recognition":{"detection":{"modelName":"buffalo_l","options":{"minScore":0.7}},` +
		`"recognition":{"modelName":"buffalo_l"}}}`
	readText = `{"ocr":{"detection":{"modelName":"PP-OCRv5_mobile","options":{"minScore":0.5,"maxResolution":736}},` +
		`"recognition":{"modelName":"PP-OCRv5_mobile","options":{"minScore":0.8}}}}`
)

// TestImmich: the requests of Immich's server are answered as its own service answers them.
func TestImmich(t *testing.T) {
	//proves:T7
	r := newImmich(t)
	for path, want := range map[string]answer{"/ping": {code: 200, body: "pong"}, "/": {code: 200, body: `{"message":"Immich ML"}`},
		"/api/tags": {code: 404, body: "404 page not found"}} {
		if a := r.do("GET", path, ""); a.code != want.code || a.body != want.body {
			t.Errorf("%s: %d %q", path, a.code, a.body)
		}
	}
	picture := immichFile("image", "blob", drawnPNG(40, 20))
	red, text := immichFile("image", "blob", plainPNG(color.RGBA{R: 255, A: 255})), immichField("text", "red ")
	a := r.predict(immichField("entries", encodeText) + text)
	vector := immichVector(t, a, false)
	if a.header.Get("Content-Type") != "application/json" || len(vector) != 8 {
		t.Errorf("a text: %v %s", a.header, a.body)
	}
	if got := immichVector(t, r.predict(immichField("entries", encodeImage)+red), true); !slices.Equal(got, vector) {
		t.Errorf("a red picture: %v, its word is %v", got, vector)
	}
	const face = `{"boundingBox":{"x1":10,"y1":5,"x2":30,"y2":15},"embedding":"[0,1,2,`
	both := `{"clip":{"visual":{"modelName":"m","options":{}}},` + detectFaces[1:]
	for _, tt := range []struct{ name, form, begins, ends string }{
		{"faces", immichField("entries", detectFaces) + picture, `{"facial-recognition":[` + face,
			`509,510,511]","score":0.9}],"imageHeight":20,"imageWidth":40}`},
		{"no face that sure", immichField("entries", strings.Replace(detectFaces, "0.7", "0.95", 1)) + picture, `{"facial-recognition":[],`,
			`"imageHeight":20,"imageWidth":40}`},
		{"both tasks", immichField("entries", both) + picture, `{"clip":"[`, `"imageHeight":20,"imageWidth":40}`},
		{"entries behind the picture", picture + immichField("entries", detectFaces), `{"facial-recognition":[` + face, `}`},
		{"a text and the faces of a picture", immichField("entries", strings.Replace(both, "visual", "textual", 1)) + text + picture,
			`{"clip":"[`, `"imageHeight":20,"imageWidth":40}`},
	} {
		if a := r.predict(tt.form); a.code != 200 || !strings.HasPrefix(a.body, tt.begins) || !strings.HasSuffix(a.body, tt.ends) {
			t.Errorf("%s: %d %s", tt.name, a.code, a.body)
		}
	}
}

// TestImmichRefuses: what is not served or not right is an error that names it, in the form of
// Immich's service, and never an empty list.
func TestImmichRefuses(t *testing.T) {
	//proves:T7
	r := newImmich(t)
	picture, text := immichFile("image", "blob", drawnPNG(40, 20)), immichField("text", "red")
	entries := func(s string) string { return immichField("entries", s) }
	tasks := strings.TrimSuffix(strings.Repeat(`"clip":{"visual":{"modelName":"a"}},`, 10_000), ",")
	for _, tt := range []struct {
		name, form, want string
		code             int
	}{
		{"ocr", entries(readText) + picture, `{"detail":"the task \"ocr\" is not served`, 501},
		{"ocr among others", entries(encodeImage[:len(encodeImage)-1]+","+readText[1:]) + picture, "is not served", 501},
		{"neither", entries(encodeText), `{"detail":"Either image or text must be provided"}`, 400},
		{"a picture for a text", entries(encodeText) + picture, "the form has no field text", 400},
		{"a text for a picture", entries(encodeImage) + text, "the form has no image", 400},
		{"a text for faces", entries(detectFaces) + text, "the form has no image", 400},
		{"no entries", picture, "entries is not what is asked for", 422},
		{"10,000 tasks", entries("{"+tasks+"}") + picture, "entries has more than 4 KiB", 400},
		{"deep entries", entries(strings.Repeat("[", 4000)) + picture, "entries is not what is asked for", 422},
		{"deep options", entries(`{"clip":{"visual":{"modelName":"a","x":`+strings.Repeat("[", 1900)+strings.Repeat("]", 1900)+`}}}`) + "",
			"Either image or text", 400},
		{"a long text", entries(encodeText) + immichField("text", strings.Repeat("x", 5000)), "text has more than 4 KiB", 400},
		{"no picture at all", entries(encodeImage) + immichFile("image", "blob", "hello"), "the picture cannot be read", 400},
		{"an empty picture", entries(encodeImage) + immichFile("image", "blob", ""), "the picture cannot be read", 400},
		{"two pictures", entries(encodeImage) + picture + picture, "the form has two pictures", 400},
		{"a bomb", entries(detectFaces) + immichFile("image", "blob", bombPNG(30_000, 30_000)), "the picture cannot be read", 400},
		{"a bomb of 36 megapixels", entries(encodeImage) + immichFile("image", "blob", bombPNG(6000, 6000)), "cannot hold", 400},
		{"many fields", entries(encodeImage) + strings.Repeat(immichField("x", ""), 17) + picture, "more than 16 fields", 400},
		{"cut off", strings.TrimSuffix(entries(encodeImage)+picture, "\r\n"), "failed to parse multipart form", 400},
	} {
		form := tt.form + immichEnd
		if tt.name == "cut off" {
			form = tt.form
		}
		a := r.do("POST", predict, form, "Content-Type", immichKind)
		if a.code != tt.code || !strings.Contains(a.body, tt.want) || !strings.HasPrefix(a.body, `{"detail":"`) ||
			!json.Valid([]byte(a.body)) {
			t.Errorf("%s: %d %.300s, want %d %s", tt.name, a.code, a.body, tt.code, tt.want)
		}
	}
	if a := r.post(predict, "{}"); a.code != 400 || !strings.Contains(a.body, `{"detail":"failed to parse multipart form`) {
		t.Errorf("no form: %d %s", a.code, a.body)
	}
	if a := r.predict(entries(encodeText)+text, "Host", "evil.example.com"); a.code != 403 {
		t.Errorf("another host: %d %s", a.code, a.body)
	}
	if a := r.predict(entries(encodeText)+text, "Origin", "https://evil.example.com"); a.code != 403 {
		t.Errorf("another site's page: %d %s", a.code, a.body)
	}
	// A name that means a file elsewhere is a name, and a file's name means nothing.
	a := r.predict(entries(strings.Replace(encodeImage, "ViT-B-32__openai", "../../../etc/passwd", 1)) +
		immichFile("image", "../../etc/passwd", drawnPNG(4, 4)))
	if a.code != 200 {
		t.Errorf("a name with a path in it: %d %s", a.code, a.body)
	}
}

// TestImmichNone: without a model for a task, the error says what is missing.
func TestImmichNone(t *testing.T) {
	models := scripted.Builtin()
	delete(models, "scripted-search")
	delete(models, "scripted-faces")
	main := assembledOf(t, models)
	r := main.immich()
	picture := immichFile("image", "blob", drawnPNG(40, 20))
	for entries, want := range map[string]string{encodeImage: "no installed model gives vectors of pictures and texts",
		detectFaces: "no installed model finds faces in pictures"} {
		if a := r.predict(immichField("entries", entries) + picture); a.code != 404 || !strings.Contains(a.body, want) {
			t.Errorf("%s: %d %s", entries, a.code, a.body)
		}
	}
}

// TestImmichKeys: the port needs no key where the server has some, is a client of its own, may ask
// and no more, and a name that means no installed model is told in the log, once.
func TestImmichKeys(t *testing.T) {
	//proves:T6
	var mu sync.Mutex
	var owners []string
	core, log := observer.New(zap.InfoLevel)
	main := assembled(t, func(o *server.Options, c *scripted.Config) {
		o.Keys = access.New(access.Line{Name: "a", Key: "secret-of-a", Role: access.Admin})
		o.Log = zap.New(core)
		c.Asked = func(key string) {
			mu.Lock()
			defer mu.Unlock()
			owners = append(owners, key)
		}
	})
	r := main.immich()
	picture := immichFile("image", "blob", drawnPNG(40, 20))
	for _, form := range []string{immichField("entries", encodeText) + immichField("text", "red"),
		immichField("entries", encodeImage) + picture, immichField("entries", detectFaces) + picture} {
		if a := r.predict(form, "Authorization", "Bearer secret-of-a"); a.code != 200 {
			t.Errorf("%d %s", a.code, a.body)
		}
	}
	mu.Lock()
	if !slices.Equal(owners, []string{"own:immich", "own:immich", "own:immich"}) {
		t.Errorf("asked by %q", owners)
	}
	mu.Unlock()
	for _, path := range []string{"/api/delete", "/api/generate", "/metrics", "/ui"} {
		if a := r.do("POST", path, "{}"); a.code != 404 {
			t.Errorf("%s on Immich's port: %d", path, a.code)
		}
	}
	if n := log.FilterMessage("a model answers Immich").Len(); n != 2 {
		t.Errorf("%d lines say which model answers", n)
	}
	for i := range 100 {
		r.predict(immichField("entries", fmt.Sprintf(`{"clip":{"textual":{"modelName":"m%d"}}}`, i)) + immichField("text", "red"))
	}
	if n := log.FilterMessage("a model answers Immich").Len(); n != 64 {
		t.Errorf("%d lines say which model answers", n)
	}
}

// TestImmichLog: the log says what was wrong, as Immich's does not. A task that is not served is no
// error of the server's: Immich asks for it with each photo.
func TestImmichLog(t *testing.T) {
	core, log := observer.New(zap.InfoLevel)
	r := assembled(t, func(o *server.Options, _ *scripted.Config) { o.Log = zap.New(core) }).immich()
	for i, tt := range []struct{ form, want string }{
		{immichField("entries", readText) + immichFile("image", "blob", drawnPNG(4, 4)), `the task "ocr" is not served`},
		{immichField("entries", encodeImage) + immichFile("image", "blob", "a private thing"),
			"the picture cannot be read: no picture that is read here"},
		{immichField("entries", encodeImage) + immichFile("image", "blob", "\x00\x00\x00\x18ftypheic"), "this is a heic file"},
	} {
		r.predict(tt.form)
		var lines []observer.LoggedEntry
		for end := time.Now().Add(patience); len(lines) <= i && time.Now().Before(end); <-time.After(time.Millisecond) {
			lines = log.FilterMessage("request").All() // a line may come behind its answer
		}
		if len(lines) <= i || lines[i].Level != zap.InfoLevel || !strings.Contains(fmt.Sprint(lines[i].ContextMap()["error"]), tt.want) {
			t.Errorf("%v, want a line with %s", lines, tt.want)
		}
	}
}

// TestImmichWeighed: pictures that are announced take room before they come. More of them than
// there is room for may come again, and a small one is answered all the same.
func TestImmichWeighed(t *testing.T) {
	//proves:T7
	r := newImmich(t)
	head := fmt.Sprintf("POST /predict HTTP/1.1\r\nHost: localhost\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n%s", immichKind, 33<<20,
		strings.TrimSuffix(immichFile("image", "blob", strings.Repeat("x", 1<<20)), "\r\n"))
	const each = 32 << 20 * 3 / 2
	for range 3 {
		defer r.dial(head).Close()
	}
	for end := time.Now().Add(patience); r.Room() < 3*each && time.Now().Before(end); <-time.After(time.Millisecond) {
	}
	large := immichFile("image", "blob", strings.Repeat("x", 32<<20))
	if a := r.predict(immichField("entries", encodeImage) + large); a.code != 503 || a.header.Get("Retry-After") == "" {
		t.Errorf("without room: %d %.200s", a.code, a.body)
	}
	small := immichFile("image", "blob", drawnPNG(4, 4))
	if a := r.predict(immichField("entries", encodeImage) + small); a.code != 200 {
		t.Errorf("a small one: %d %.200s", a.code, a.body)
	}
}

// TestImmichMany: 64 pictures at once are each answered, or told to come again, and their memory is
// given back.
func TestImmichMany(t *testing.T) {
	//proves:T7
	main := assembled(t)
	r := main.immich()
	form := immichField("entries", encodeImage) + immichFile("image", "blob", plainPNG(color.RGBA{B: 255, A: 255})) +
		immichField("x", "") + immichEnd
	var all sync.WaitGroup
	codes := make([]int, 64)
	for i := range codes {
		all.Go(func() { codes[i] = r.do("POST", predict, form, "Content-Type", immichKind).code })
	}
	all.Wait()
	for i, code := range codes {
		if code != 200 {
			t.Errorf("picture %d: %d", i, code)
		}
	}
	if n := main.Room(); n != 0 {
		t.Errorf("%d bytes are held", n)
	}
}

// TestImmichLost: Immich is led elsewhere when the card is lost.
func TestImmichLost(t *testing.T) {
	main := assembled(t)
	r := main.immich()
	main.SetLost(errors.New("gone"))
	if a := r.do("GET", "/ping", ""); a.code != 503 || !strings.Contains(a.body, "gone") {
		t.Errorf("%d %s", a.code, a.body)
	}
}

// TestImmichEnds: a server that is told to end says so to a ping, takes no new request, and answers
// the one that it works at.
func TestImmichEnds(t *testing.T) {
	old := newRig(t)
	g := &gated{old.loader, make(chan struct{})}
	s := server.New(local.New(old.store, local.Options{Describe: scripted.Describe}), g, nil,
		server.Options{Loopback: true, KeepAlive: time.Minute})
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- errors.Join(s.ServeImmich(ctx, ln, patience), s.Close(context.Background())) }()
	r := &rig{Server: s, t: t, url: "http://" + ln.Addr().String()}
	form := immichField("entries", encodeText) + immichField("text", "red")
	answered := make(chan answer, 1)
	go func() { answered <- r.predict(form) }()
	r.active(1)
	stop()
	for end := time.Now().Add(patience); r.do("GET", "/ping", "").code != 503; <-time.After(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it does not end")
		}
	}
	for end := time.Now().Add(patience); ; <-time.After(time.Millisecond) { // after the delay, which is none here
		a := r.do("POST", predict, form+immichEnd, "Content-Type", immichKind)
		if a.code == 503 && a.header.Get("Retry-After") != "" {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("a new request: %d %s", a.code, a.body)
		}
	}
	close(g.gate)
	if a := <-answered; a.code != 200 || !strings.HasPrefix(a.body, `{"clip":"[`) {
		t.Errorf("what it worked at: %d %s", a.code, a.body)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func newImmich(t *testing.T) *rig { return assembled(t).immich() }

// immich lets the rig listen as Immich's service does.
func (r *rig) immich() *rig {
	ts := httptest.NewServer(r.ImmichHandler(true))
	r.t.Cleanup(ts.Close)
	return &rig{Server: r.Server, t: r.t, url: ts.URL, loader: r.loader, store: r.store}
}

func (r *rig) predict(form string, header ...string) answer {
	r.t.Helper()
	return r.do("POST", predict, form+immichEnd, append([]string{"Content-Type", immichKind}, header...)...)
}

func immichField(name, value string) string {
	return "--" + immichBoundary + "\r\nContent-Disposition: form-data; name=\"" + name + "\"\r\n\r\n" + value + "\r\n"
}

func immichFile(name, file, data string) string {
	return "--" + immichBoundary + "\r\nContent-Disposition: form-data; name=\"" + name + "\"; filename=\"" + file +
		"\"\r\nContent-Type: application/octet-stream\r\n\r\n" + data + "\r\n"
}

// immichVector is the vector of an answer that has nothing else but the size of a picture.
func immichVector(t *testing.T, a answer, sized bool) (v []float32) {
	t.Helper()
	var got struct {
		Clip                    *string
		ImageHeight, ImageWidth *int
	}
	d := json.NewDecoder(strings.NewReader(a.body))
	d.DisallowUnknownFields()
	if err := d.Decode(&got); a.code != 200 || err != nil || got.Clip == nil || (got.ImageHeight != nil) != sized {
		t.Fatalf("%d %s %v", a.code, a.body, err)
	}
	if err := json.Unmarshal([]byte(*got.Clip), &v); err != nil {
		t.Errorf("%v: %s", err, *got.Clip)
	}
	return v
}

func plainPNG(c color.Color) string {
	img := image.NewRGBA(image.Rect(0, 0, 4, 2))
	for i := range 8 {
		img.Set(i%4, i/4, c)
	}
	var b bytes.Buffer
	_ = png.Encode(&b, img)
	return b.String()
}

// bombPNG says that it is this large, and has hardly any data.
func bombPNG(width, height int) string {
	b := []byte(drawnPNG(1, 1))
	at := bytes.Index(b, []byte("IHDR")) + 4
	for i, v := range []int{width, height} {
		for j := range 4 {
			b[at+4*i+j] = byte(v >> (24 - 8*j))
		}
	}
	return string(b)
}
