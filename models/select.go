package models

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
)

// This file says which files a model consists of.

// files lists everything the model consists of: what a hub has to fetch.
func (p *plan) files() []string {
	all := slices.Concat(p.layers, p.encoders, p.extra, []string{p.head, p.embed, p.table, p.chatTemplate, p.postConfig, p.genConfig})
	if p.t.has(p.tokenizer) {
		all = append(all, p.tokenizer)
	} else if p.tokenizer != "" {
		all = append(all, p.t.in(p.tokenizer)...)
	}
	slices.Sort(all)
	all = slices.Compact(all)
	if len(all) > 0 && all[0] == "" {
		all = all[1:]
	}
	return all
}

// Select says which of the listed files (path to size) make up the model that [Open] would find
// among them. small serves the contents of the text files, and of .axmodel files where it can read
// them at an offset: of those a few are looked into where no configuration names layers. It fails
// as [Open] does when there is no model, or not a whole one. For a package of another kind it gives
// all files, and the error says which kind ([KindError]).
func Select(files map[string]int64, small fs.FS) ([]string, error) {
	t := &tree{fsys: small, files: map[string]int64{}, broken: map[string]string{}, listed: true}
	for name, size := range files {
		if !fs.ValidPath(name) || strings.Count(name, "/") > maxFolders {
			continue
		}
		t.files[name] = size
		t.names = append(t.names, name)
	}
	if len(t.names) > maxEntries {
		return nil, &Error{What: fmt.Sprintf("more than %d files", maxEntries), Err: ErrNotPackage}
	}
	slices.Sort(t.names)
	p, err := makePlan(t)
	var k *KindError
	if errors.As(err, &k) {
		return k.files, err
	}
	if err != nil {
		return nil, err
	}
	return p.files(), nil
}
