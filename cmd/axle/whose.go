//go:build !scripted

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/ollama/ollama/api"

	"github.com/axle-llm/axle/cmd/internal/client"
	"github.com/axle-llm/axle/models"
	"github.com/axle-llm/axle/models/hub"
	"github.com/axle-llm/axle/models/store"
)

// This file decides, for every command that reads a model's files itself, whose store a name leads
// to: that of the server at AXLE_HOST, which is the one that 'axle list' shows and 'axle pull'
// fills, or that of the user who types. An AXLE_MODELS that is set goes before the server's.

// openPackage opens a model by its name in a store, or by the path of its folder. The caller closes
// it.
func openPackage(name string) (*models.Package, error) {
	p, _, err := openModel(name)
	return p, err
}

// openModel is openPackage; m is nil for a folder. It fails with an absentError where the model is
// in no store, and with a lockedError where it is in one that may not be read.
func openModel(name string) (p *models.Package, m *store.Model, err error) {
	if isFolder, err := folder(name); err != nil {
		return nil, nil, err
	} else if isFolder {
		p, err = models.Open(name)
		return p, nil, err
	}
	s, err := store.Open(storeOptions())
	if err != nil {
		return nil, nil, err
	}
	m, err = s.Get(name)
	keyed := ""
	own := err == nil && (m.Builtin || m.Folder != "" || cmp.Or(os.Getenv("AXLE_MODELS"), os.Getenv("OLLAMA_MODELS")) != "")
	if !own && (err == nil || errors.Is(err, store.ErrNotFound)) {
		p, theirs, terr := openTheirs(name)
		if locked := new(lockedError); errors.As(terr, &locked) {
			locked.mine = err == nil
		}
		if k := new(keyedError); errors.As(terr, &k) {
			keyed = k.url
		}
		if !errors.Is(terr, store.ErrNotFound) {
			return p, theirs, errors.Join(terr, s.Close())
		}
	}
	if err == nil {
		p, err = openOf(s, m)
		return p, m, err
	}
	_ = s.Close()
	if errors.Is(err, store.ErrNotFound) {
		a := absent(name, err)
		a.keyed = keyed
		return nil, nil, a
	}
	return nil, nil, fmt.Errorf("%w; 'axle list' shows what there is, 'axle pull --list' what can be fetched", err)
}

// folder reports whether what a user names a package by is its folder. It fails where that can only
// be the path of one, and there is none.
func folder(name string) (bool, error) {
	if st, err := os.Stat(name); err == nil && st.IsDir() {
		return true, nil
	}
	if strings.ContainsRune(name, os.PathSeparator) && (strings.HasPrefix(name, ".") || strings.HasPrefix(name, "/")) {
		return false, fmt.Errorf("%s: no such folder", name)
	}
	return false, nil
}

// openOf opens a model of a store, which it closes with the package: a package goes on reading from
// it.
func openOf(s *store.Store, m *store.Model) (*models.Package, error) {
	p, err := m.Open()
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	p.Own(s)
	return p, nil
}

// keyedError is a server that tells nothing without a key. For who looks for a model it is as good
// as none: errors.Is finds store.ErrNotFound.
type keyedError struct{ url string }

func (e *keyedError) Error() string {
	return fmt.Sprintf("the server at %s may have it, and wants a key: set AXLE_KEY to one of those in its keys file", e.url)
}

func (e *keyedError) Is(target error) bool { return target == store.ErrNotFound }

// openTheirs opens a model in the store of the server at AXLE_HOST. It fails with store.ErrNotFound
// where no server answers or its store has no such model, and with a keyedError where it does not
// tell.
func openTheirs(name string) (*models.Package, *store.Model, error) {
	ctx := context.Background()
	conn, err := connect(ctx, true)
	if errors.As(err, new(*noServerError)) {
		return nil, nil, store.ErrNotFound // that there is none is no matter of this command's
	}
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = conn.stop() }()
	locked := &lockedError{name: name, url: conn.URL.String()}
	where, err := conn.Where(ctx)
	switch {
	case err != nil:
		locked.why = client.Error(err)
	case readable(where):
		p, m, err := openIn(where, name)
		if !errors.Is(err, fs.ErrPermission) {
			return p, m, err
		}
		locked.where = where
	default:
		locked.where = where
	}
	if _, err := conn.Show(ctx, &api.ShowRequest{Model: name}); errors.As(err, new(api.AuthorizationError)) {
		return nil, nil, &keyedError{conn.URL.String()}
	} else if err != nil {
		return nil, nil, store.ErrNotFound
	}
	return nil, nil, locked
}

// wholeStore is the store that a command works on as a whole, and may write in: that of the server
// at AXLE_HOST, if it runs on this machine as this user; the user's own where there is none, or
// AXLE_MODELS says so. Where the server is another user's, it fails with the command line that
// works: what one user writes in another's store, root among them, that one could not change any
// more.
func wholeStore(ctx context.Context) (store.Options, error) {
	own := storeOptions()
	if cmp.Or(os.Getenv("AXLE_MODELS"), os.Getenv("OLLAMA_MODELS")) != "" {
		return own, nil
	}
	conn, err := connect(ctx, true)
	if errors.As(err, new(*noServerError)) || ctx.Err() != nil {
		return own, ctx.Err()
	}
	if err != nil {
		return own, fmt.Errorf("whether a server has models here cannot be asked: %w; your own are looked at with AXLE_MODELS=%s", err,
			shellWord(store.DefaultDir()))
	}
	defer func() { _ = conn.stop() }()
	where, err := conn.Where(ctx)
	if errors.As(err, new(api.AuthorizationError)) {
		return own, fmt.Errorf("the server at %s does not tell where its models are without a key: set AXLE_KEY to one of those in "+
			"its keys file; your own are looked at with AXLE_MODELS=%s", conn.URL, shellWord(store.DefaultDir()))
	}
	if err != nil || where.Folder == "" || where.Folder == store.DefaultDir() {
		return own, nil
	}
	if where.User != me() {
		return own, fmt.Errorf("the server at %s keeps its models in %s, which are %s's. This works: %s; your own are looked at with "+
			"AXLE_MODELS=%s", conn.URL, where.Folder, cmp.Or(where.User, "another user"), asServer(where, os.Args[1:]),
			shellWord(store.DefaultDir()))
	}
	own.Dir, own.Paths = where.Folder, where.Paths
	return own, nil
}

// storeAlone says how the models of a server are found once it has been ended; empty: as they are
// now.
func storeAlone(ctx context.Context, conn *connection) string {
	if cmp.Or(os.Getenv("AXLE_MODELS"), os.Getenv("OLLAMA_MODELS")) != "" {
		return ""
	}
	where, err := conn.Where(ctx)
	if err != nil || where.Folder == "" || where.Folder == store.DefaultDir() {
		return ""
	}
	if os.Geteuid() == 0 { // who can read it all
		where.User = ""
	}
	return "; its models are found without it by: " + asServer(where, os.Args[1:])
}

// readable says whether a server's store can be looked into from here.
func readable(w client.Where) bool {
	_, err := os.ReadDir(filepath.Join(w.Folder, "manifests"))
	if errors.Is(err, fs.ErrNotExist) { // nothing was pulled yet: what lies in place can be used all the same
		_, err = os.ReadDir(w.Folder)
	}
	return w.Folder != "" && err == nil
}

// openIn opens a model in a server's store.
func openIn(w client.Where, name string) (*models.Package, *store.Model, error) {
	o := storeOptions()
	o.Dir, o.Paths = w.Folder, w.Paths
	s, err := store.Open(o)
	if err != nil {
		return nil, nil, err
	}
	m, err := s.Get(name)
	if err != nil {
		return nil, nil, errors.Join(err, s.Close())
	}
	p, err := openOf(s, m)
	return p, m, err
}

// absentError is a model that is in no store.
type absentError struct {
	name  string
	entry *hub.Entry // what the catalogue knows of it; nil: nothing
	repo  bool       // the name is a repository's
	keyed string     // the server that may have it, and wants a key; empty: there is none
	err   error
}

// absent looks up what is known of a model that is not here.
func absent(name string, err error) *absentError {
	a := &absentError{name: name, err: err}
	n, perr := models.ParseName(name)
	if perr != nil {
		return a
	}
	if s, lerr := hub.Locate(n); lerr == nil {
		a.entry, a.repo = s.Entry, s.Entry == nil
		if a.repo {
			a.entry = hub.Of(s.Repo)
		}
	}
	return a
}

func (e *absentError) Error() string {
	text := fmt.Sprintf("%v; 'axle list' shows what there is, 'axle pull --list' what can be fetched", e.err)
	if e.entry != nil || e.repo {
		size := "if the hub has it"
		if e.entry != nil {
			n, told := e.entry.Size()
			size = map[bool]string{true: "about ", false: "an estimated "}[told] + models.HumanBytes(n)
		}
		text = fmt.Sprintf("%s has not been pulled: 'axle pull %s' fetches it, %s", e.name, e.name, size)
	}
	if e.keyed != "" {
		text += "; " + (&keyedError{e.keyed}).Error()
	}
	return text
}

func (e *absentError) Unwrap() error { return e.err }

// lockedError is a model of a server whose store cannot be read by who asks.
type lockedError struct {
	name, url string
	where     client.Where
	why       error // the server does not tell where its store is
	mine      bool  // who asks has one of that name too
}

func (e *lockedError) Error() string {
	text := fmt.Sprintf("%s is in the store of the server at %s, ", e.name, e.url)
	if _, err := os.Stat(e.where.Folder); e.why != nil {
		text += fmt.Sprintf("and this command has to read its files: run it on the server's machine, with AXLE_MODELS naming the "+
			"store's folder (%v)", e.why)
	} else if errors.Is(err, fs.ErrNotExist) {
		text += e.where.Folder + ", which is not on this machine as this program sees it: where the server runs in a container, run " +
			"this command there"
	} else {
		text += fmt.Sprintf("which %s may not read. This works: %s", me(), asServer(e.where, os.Args[1:]))
	}
	if e.mine {
		text += "; your own " + e.name + " is meant with AXLE_MODELS=" + shellWord(store.DefaultDir())
	}
	return text
}

// me is the name of who runs this program.
func me() string {
	u, err := user.Current()
	if err != nil {
		return "this user"
	}
	return u.Username
}

// asServer is a command line that runs axle with these arguments as the server's user, in the
// server's store.
func asServer(w client.Where, args []string) string {
	words := []string{"sudo"}
	if w.User != "" {
		words = append(words, "-u", shellWord(w.User))
	}
	words = append(words, shellWord("AXLE_MODELS="+w.Folder))
	if len(w.Paths) > 0 {
		words = append(words, shellWord("AXLE_MODEL_PATH="+strings.Join(w.Paths, string(filepath.ListSeparator))))
	}
	words = append(words, "axle")
	for _, a := range args {
		words = append(words, shellWord(a))
	}
	return strings.Join(words, " ")
}

var plainWord = regexp.MustCompile(`^[A-Za-z0-9_@%+=:,./-]+$`)

// shellWord is a word as a shell reads it.
func shellWord(s string) string {
	if plainWord.MatchString(s) {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
