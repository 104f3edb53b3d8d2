package store

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/axle-llm/axle/internal/regular"
	"github.com/axle-llm/axle/models"
)

// This file finds packages in folders that others fill, at each request. What was found holds as
// long as all that was looked at has the times it had, so that a request costs a look at each
// folder's time and not at each file.

// walk is what was found below a folder, and by what.
type walk struct {
	seen
	found []found
}

// found is a folder that is a package.
type found struct {
	name models.Name
	dir  string
}

// packages finds those in dir; walked says that it had to look for them.
func (s *Store) packages(dir string) (list []found, walked bool) {
	if last, ok := s.found.Load(dir); ok && last.(*walk).holds() {
		return last.(*walk).found, false
	}
	w := &walk{seen: seen{began: time.Now(), at: map[string]stamp{}}}
	w.packages(dir, nil)
	s.found.Store(dir, w)
	return w.found, true
}

// packages notes dir if it is a package, else the packages up to two levels below.
func (w *walk) packages(dir string, rel []string) {
	w.look(dir)
	list, err := os.ReadDir(dir)
	if err != nil || len(list) > 10000 {
		return
	}
	hub := strings.HasPrefix(filepath.Base(dir), "models--") // a repository in a Hugging Face cache
	if hub || marked(list) || w.pointsOutside(dir, list) || w.isPair(dir, list) || w.isSplit(dir, list, len(rel) > 0) {
		if len(rel) == 0 {
			rel = []string{filepath.Base(dir)}
		}
		if n, ok := folderName(rel); ok {
			w.found = append(w.found, found{n, dir})
		}
		return
	}
	if len(rel) == 2 {
		return
	}
	for _, e := range list {
		sub := filepath.Join(dir, e.Name())
		if strings.HasPrefix(e.Name(), ".") || e.Type().IsRegular() {
			continue
		}
		if w.look(sub).dir { // what a link leads to: a link to a folder is how people add one
			w.packages(sub, append(rel[:len(rel):len(rel)], e.Name()))
		}
	}
}

// marked says whether a folder's own entries are those of a package, in any layout.
func marked(list []os.DirEntry) bool {
	for _, e := range list {
		name := e.Name()
		switch {
		case strings.HasSuffix(name, ".axmodel"), name == "config.json", name == "post_config.json", name == "vlm" && e.IsDir(),
			strings.HasPrefix(name, "run_") && strings.HasSuffix(name, ".sh"),
			strings.HasPrefix(name, "mode_") && strings.HasSuffix(name, ".json"):
			return true
		}
	}
	return false
}

// tokens says whether a file lists tokens, or a detector's labels.
func tokens(name string) bool {
	return slices.Contains([]string{"tokenizer.json", "tokens.txt", "labels.txt", "labelmap.txt", "classes.txt"}, name)
}

// isPair says whether a folder keeps its encoders of texts and of pictures in folders of their own,
// as Immich does.
func (w *walk) isPair(dir string, list []os.DirEntry) bool {
	return slices.ContainsFunc(list, func(e os.DirEntry) bool {
		if !e.IsDir() || e.Name() != "textual" && e.Name() != "visual" {
			return false
		}
		sub := filepath.Join(dir, e.Name())
		w.look(sub)
		in, err := os.ReadDir(sub)
		return err == nil && len(in) <= 1000 && slices.ContainsFunc(in, func(e os.DirEntry) bool {
			return strings.HasSuffix(e.Name(), ".axmodel")
		})
	})
}

// isSplit says whether a folder keeps nets in one sub-folder, without a configuration, and the
// tokenizer that belongs to them in itself or, where beside is set, in another: packages of single
// nets are built so. Of others, a folder checkpoints has the configuration, or a folder models has
// everything.
func (w *walk) isSplit(dir string, list []os.DirEntry, beside bool) bool {
	nets, tokenizer := false, false
	for _, e := range list {
		tokenizer = tokenizer || tokens(e.Name())
		if !e.IsDir() || strings.HasPrefix(e.Name(), ".") {
			continue
		}
		sub := filepath.Join(dir, e.Name())
		w.look(sub)
		in, err := os.ReadDir(sub)
		if err != nil || len(in) > 1000 {
			continue
		}
		has := func(is func(name string) bool) bool {
			return slices.ContainsFunc(in, func(e os.DirEntry) bool { return is(e.Name()) })
		}
		if e.Name() == "models" && has(func(name string) bool { return name == "unet.axmodel" }) {
			return true // a model that draws: all but the times and the tokenizer, which lie there too
		}
		switch compiled := has(func(name string) bool { return strings.HasSuffix(name, ".axmodel") }); {
		case compiled && has(func(name string) bool { return name == "config.json" }):
			return false // a package of its own
		case compiled:
			nets = true
		case beside && has(func(name string) bool {
			return tokens(name) || e.Name() == "checkpoints" && name == "config.json"
		}):
			tokenizer = true
		}
	}
	return nets && tokenizer
}

// pointsOutside says whether a sub-folder's config.json names layers outside that sub-folder but
// inside dir: layout B, whose package is dir.
func (w *walk) pointsOutside(dir string, list []os.DirEntry) bool {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return false
	}
	defer root.Close()
	files := regular.FS(root)
	for _, e := range list {
		if !e.IsDir() {
			continue
		}
		if name := filepath.Join(dir, e.Name(), "config.json"); w.look(name) == (stamp{}) {
			continue
		}
		var c struct {
			Template string `json:"template_filename_axmodel"`
		}
		data, err := regular.Read(files, e.Name()+"/config.json", maxPlanFile)
		if err != nil || json.Unmarshal(data, &c) != nil || c.Template == "" {
			continue
		}
		first, _ := models.LayerFile(c.Template, 0)
		for _, base := range []string{filepath.Join(dir, e.Name()), dir} {
			layer := filepath.Join(base, filepath.FromSlash(first))
			rel, err := filepath.Rel(dir, layer)
			if err != nil || !filepath.IsLocal(rel) {
				continue
			}
			if w.look(layer) != (stamp{}) {
				return !strings.HasPrefix(rel, e.Name()+string(filepath.Separator))
			}
		}
	}
	return false
}
