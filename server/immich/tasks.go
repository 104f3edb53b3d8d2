package immich

import (
	"encoding/json"
	"maps"
	"slices"

	"github.com/axle-llm/axle/server/body"
)

// What the field entries may name.
const (
	clip        = "clip"
	faces       = "facial-recognition"
	textual     = "textual"
	visual      = "visual"
	detection   = "detection"
	recognition = "recognition"
	reading     = "ocr"
)

// usualScore is what a face must score where a request does not say.
const usualScore = 0.7

// maxName is how long the name of a model may be.
const maxName = 256

// Tasks are what a request asks for.
type Tasks struct {
	Clip *Clip
	Face *Face
}

// Clip asks for the vector of a text, or of a picture.
type Clip struct {
	Model  string // as Immich names it
	Visual bool   // of the picture
}

// Face asks for the faces in a picture.
type Face struct {
	Model string // as Immich names it
	Least float64
}

// entry is a part of a task.
type entry struct {
	Model   *string `json:"modelName"`
	Options struct {
		MinScore *float64 `json:"minScore"`
	} `json:"options"`
}

// Read reads the field entries. A task that is not served is an error that names it.
func Read(entries string) (t Tasks, err error) {
	var all map[string]map[string]entry
	if err := json.Unmarshal([]byte(entries), &all); err != nil {
		return t, body.Fail(422, "entries is not what is asked for, as JSON of tasks and models: %s", err)
	}
	if len(all) == 0 {
		return t, body.Fail(422, "entries asks for nothing: it may name the tasks clip and facial-recognition")
	}
	for _, task := range slices.Sorted(maps.Keys(all)) {
		parts := all[task]
		for part, e := range parts {
			switch {
			case e.Model == nil:
				return t, body.Fail(422, "entries: %s of %s has no modelName", part, task)
			case len(*e.Model) > maxName:
				return t, body.Fail(422, "entries: a modelName has more than %d bytes", maxName)
			}
		}
		switch task {
		case clip:
			err = t.readClip(parts)
		case faces:
			err = t.readFaces(parts)
		case reading: // which a log may name
			err = unserved(body.Ours(task))
		default:
			err = unserved(task)
		}
		if err != nil {
			return Tasks{}, err
		}
	}
	return t, nil
}

func unserved(task any) error {
	return body.Fail(501, "the task %q is not served: clip and facial-recognition are. Switch it off in Immich's settings of machine "+
		"learning", task)
}

func (t *Tasks) readClip(parts map[string]entry) error {
	text, isText := parts[textual]
	picture, isPicture := parts[visual]
	switch {
	case len(parts) != 1:
		return body.Fail(422, "entries: clip has %d parts: ask for textual or visual", len(parts))
	case isText:
		t.Clip = &Clip{Model: *text.Model}
	case isPicture:
		t.Clip = &Clip{Model: *picture.Model, Visual: true}
	default:
		return body.Fail(422, "entries: the part of clip must be textual or visual")
	}
	return nil
}

func (t *Tasks) readFaces(parts map[string]entry) error {
	find, isFind := parts[detection]
	_, isTell := parts[recognition]
	if !isFind || !isTell || len(parts) != 2 {
		return body.Fail(422, "entries: the parts of facial-recognition must be detection and recognition, both of them")
	}
	t.Face = &Face{Model: *find.Model, Least: usualScore}
	if v := find.Options.MinScore; v != nil {
		if *v < 0 || *v > 1 {
			return body.Fail(422, "entries: minScore must be between 0 and 1, got %g", *v)
		}
		t.Face.Least = *v
	}
	return nil
}
