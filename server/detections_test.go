package server_test

import (
	"bytes"
	"encoding/json"
	"image"
	"image/png"
	"slices"
	"strings"
	"testing"

	"github.com/axle-llm/axle/server"
	"github.com/axle-llm/axle/server/access"
	"github.com/axle-llm/axle/server/scripted"
)

const detection = "/v1/vision/detection"

// TestDetections: a picture is answered as DeepStack does, and each way to ask wrongly has an error
// in that form.
func TestDetections(t *testing.T) {
	//proves:T7
	r := newRig(t)
	const end = "--x--\r\n"
	picture := pictureField("image", drawnPNG(40, 20))
	const person = `{"label":"person","confidence":0.9,"y_min":5,"x_min":10,"y_max":15,"x_max":30}`
	const cat = `{"label":"cat","confidence":0.4568,"y_min":0,"x_min":0,"y_max":10,"x_max":20}`
	for _, tt := range []struct {
		name, body, want string
		code             int
	}{
		{"as Frigate asks", field("api_key", "") + picture + end, `{"success":true,"predictions":[` + person + "," + cat + "]}", 200},
		{"the picture alone", picture + end, `{"success":true,"predictions":[` + person + "," + cat + "]}", 200},
		{"surer", field("min_confidence", "0.6") + picture + end, `{"success":true,"predictions":[` + person + "]}", 200},
		{"a field behind the picture", picture + field("min_confidence", "0.95") + end, `{"success":true,"predictions":[]}`, 200},
		{"a model", field("model", "scripted-detecting") + picture + end, `{"success":true,`, 200},
		{"a field of no file name", field("image", drawnPNG(40, 20)) + end, `{"success":true,`, 200},

		{"no picture", field("api_key", "x") + end, `{"success":false,"error":"image is required`, 400},
		{"two pictures", picture + picture + end, `"error":"the form has two pictures`, 400},
		{"no picture at all", pictureField("image", "hello") + end, `"error":"the picture cannot be read: `, 400},
		{"an empty one", pictureField("image", "") + end, `"error":"the picture cannot be read: `, 400},
		{"a confidence", field("min_confidence", "2") + picture + end, `"error":"min_confidence must be between 0 and 1`, 400},
		{"another model", field("model", "scripted-chat") + picture + end, "scripted-chat:latest does not find things in pictures", 400},
		{"an unknown model", field("model", "nope") + picture + end, `{"success":false,"error":"model 'nope' not found`, 404},
		{"cut off", picture, "failed to parse multipart form", 400},
		{"a long field", field("a", strings.Repeat("x", 5000)) + picture + end, "a has more than 4 KiB", 400},
		{"many fields", manyFields(20) + picture + end, "the form has more than 16 fields", 400},
		{"a field many times", strings.Repeat(field("a", ""), 17) + picture + end, "the form has more than 16 fields", 400},
		{"a field many times behind it", picture + strings.Repeat(field("a", ""), 17) + end, "the form has more than 16 fields", 400},
		{"a long head", "--x\r\nA: " + strings.Repeat("x", 128<<10) + "\r\n\r\n\r\n" + picture + end, "128 KiB before the picture", 400},
		{"as long a picture", pictureField("image", strings.Repeat("x", 256<<10)) + end, "the picture cannot be read", 400},
		{"more behind it", picture + end + strings.Repeat("x", 9000), "4 KiB follow the form", 400},
		{"too large", pictureField("image", strings.Repeat("x", 32<<20+1)) + end, "the picture has more than 32 MiB", 413},
	} {
		a := r.do("POST", detection, tt.body, "Content-Type", formKind)
		if a.code != tt.code || !strings.Contains(a.body, tt.want) || !json.Valid([]byte(a.body)) {
			t.Errorf("%s: %d %s, want %d %s", tt.name, a.code, a.body, tt.code, tt.want)
		}
	}
	if a := r.post(detection, "{}"); a.code != 400 || !strings.Contains(a.body, `{"success":false,"error":"failed to parse multipart form`) {
		t.Errorf("no form: %d %s", a.code, a.body)
	}
	if a := r.post("/api/chat", chatBody("scripted-detecting", "x", "")); a.code != 400 ||
		!strings.Contains(a.body, "see /v1/vision/detection") {
		t.Errorf("a chat: %d %s", a.code, a.body)
	}
	if a := r.post("/api/show", `{"model":"scripted-detecting"}`); !strings.Contains(a.body, `"capabilities":["detection"]`) {
		t.Errorf("shown: %s", a.body)
	}
}

// TestDetectionIsSeen: a picture that is looked at is in the list of what runs.
func TestDetectionIsSeen(t *testing.T) {
	var r *rig
	var state string
	r = newRig(t, func(_ *server.Options, c *scripted.Config) {
		c.Asked = func(string) { state = r.do("GET", "/api/axle/state", "").body }
	})
	if a := r.do("POST", detection, pictureField("image", drawnPNG(40, 20))+"--x--\r\n", "Content-Type", formKind); a.code != 200 ||
		!strings.Contains(state, `"route":"`+detection+`"`) {
		t.Errorf("%d, and meanwhile %s", a.code, state)
	}
}

// TestDetectorIsSet: a request that names no model is for the detector that is set, and not for
// another where that is none.
func TestDetectorIsSet(t *testing.T) {
	picture := pictureField("image", drawnPNG(40, 20)) + "--x--\r\n"
	for name, want := range map[string]string{"scripted-detecting": `"label":"person"`,
		"scripted-chat": "scripted-chat:latest does not find things in pictures", "gone": "model 'gone' not found"} {
		r := newRig(t, func(o *server.Options, _ *scripted.Config) { o.Detector = name })
		if a := r.do("POST", detection, picture, "Content-Type", formKind); !strings.Contains(a.body, want) {
			t.Errorf("%s is set: %d %s", name, a.code, a.body)
		}
		if a := r.do("POST", detection, field("model", "scripted-detecting")+picture, "Content-Type", formKind); a.code != 200 {
			t.Errorf("%s is set, and another named: %d %s", name, a.code, a.body)
		}
	}
}

// TestDetectionKeys: the key is the field api_key before the picture, or a header. Without one the
// picture is not looked at, and a key's limits count.
func TestDetectionKeys(t *testing.T) {
	//proves:T6
	var asked []string
	r := newRig(t, func(o *server.Options, c *scripted.Config) {
		o.Keys = access.New(access.Line{Name: "frigate", Key: "secret-of-frigate", Role: access.Ask},
			access.Line{Name: "slow", Key: "secret-of-slow", Role: access.Ask, Limits: access.Limits{Pictures: 1}})
		c.Asked = func(key string) { asked = append(asked, key) }
	})
	const end = "--x--\r\n"
	picture := pictureField("image", drawnPNG(40, 20))
	key := field("api_key", "secret-of-frigate")
	for _, tt := range []struct {
		name, body string
		header     []string
		want       string
		code       int
	}{
		{"a field", key + picture + end, nil, `"success":true`, 200},
		{"a header", picture + end, []string{"Authorization", "Bearer secret-of-frigate"}, `"success":true`, 200},
		{"a header, and a field that means nothing", field("api_key", "x") + picture + end,
			[]string{"Authorization", "Bearer secret-of-frigate"}, `"success":true`, 200},
		{"none", picture + end, nil, `{"success":false,"error":"unauthorized: this server wants a key, as the field api_key`, 401},
		{"an empty one", field("api_key", "") + picture + end, nil, "unauthorized", 401},
		{"a wrong one", field("api_key", "secret") + picture + end, nil, "unauthorized", 401},
		{"behind the picture", picture + key + end, nil, "the field api_key before the image", 401},
		{"in the query", picture + end, nil, "unauthorized", 401},
		{"a form that is none", "{}", nil, "unauthorized", 401},
		{"once", field("api_key", "secret-of-slow") + picture + end, nil, `"success":true`, 200},
		{"too often", field("api_key", "secret-of-slow") + picture + end, nil, `{"success":false,"error":`, 429},
	} {
		a := r.do("POST", detection, tt.body, append([]string{"Content-Type", formKind}, tt.header...)...)
		if a.code != tt.code || !strings.Contains(a.body, tt.want) {
			t.Errorf("%s: %d %s, want %d %s", tt.name, a.code, a.body, tt.code, tt.want)
		}
	}
	if a := r.do("GET", detection, ""); a.code != 401 {
		t.Errorf("a GET without a key: %d", a.code)
	}
	for _, path := range []string{"/v1/audio/transcriptions", "/v1/vision/face", detection + "/"} {
		if a := r.do("POST", path, key+picture+end, "Content-Type", formKind); a.code != 401 {
			t.Errorf("%s with a key in its form: %d", path, a.code)
		}
	}
	if len(asked) != 4 || slices.Contains(asked, "") || asked[1] != asked[0] || asked[2] != asked[0] || asked[3] == asked[0] {
		t.Errorf("asked for %q", asked)
	}
}

func drawnPNG(width, height int) string {
	var b bytes.Buffer
	_ = png.Encode(&b, image.NewGray(image.Rect(0, 0, width, height)))
	return b.String()
}

func pictureField(name, data string) string {
	return "--x\r\nContent-Disposition: form-data; name=\"" + name + "\"; filename=\"image\"\r\nContent-Type: image/jpeg\r\n\r\n" +
		data + "\r\n"
}

func manyFields(n int) (all string) {
	for i := range n {
		all += field("a"+string(rune('a'+i)), "")
	}
	return all
}
