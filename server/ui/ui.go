// Package ui is the page the server shows to people: chat, models, the card. It is plain HTML, CSS
// and ES modules, embedded as they are in this folder: README.md says where what is. Nothing is
// built, and nothing is fetched from elsewhere.
//
// Everything but the page itself is served below a name made of the content's hash, and so may be
// kept for ever: what one browser has of one version is never mixed with another's. All of it is
// constant; its functions may be called from any goroutine.
package ui

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"
)

//go:embed index.html manifest.webmanifest app style vendor icons
var files embed.FS

// Policy is the page's Content-Security-Policy: scripts and styles are files of this server, none
// stands in a page, none is made from text; markup is made from text by the one sanitiser, the
// address of the one worker by the policy axle; pictures are the server's or what the user chose.
const Policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data: blob:; " +
	"manifest-src 'self'; " +
	//rule:T20 TestPage require-trusted-types-for 'script'; =>
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types dompurify axle"

// Permissions is the page's Permissions-Policy: of what a browser asks people for, the page needs
// the microphone only, and lends it to no other page.
const Permissions = "camera=(), display-capture=(), geolocation=(), microphone=(self)"

// Asset is a file as it is sent.
type Asset struct {
	Type  string // its Content-Type
	Tag   string // its ETag, quotes included
	Keep  bool   // its address has the content's hash: it may be kept for ever
	Plain []byte
	pack  func() []byte
}

// Gzip is the content compressed, which is done once, when it is first asked for; nil where it
// would not be smaller.
func (a *Asset) Gzip() []byte { return a.pack() }

// page and assets are what there is: the page, and by path below /ui/ the rest.
var page, assets = load()

// Page is the page's HTML.
func Page() *Asset { return page }

// Find is the file of a path below /ui/; nil: there is none.
func Find(name string) *Asset { return assets[name] }

// types are the files' types by ending; the browser is told to guess none.
var types = map[string]string{
	".html": "text/html; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8",
	".svg": "image/svg+xml", ".png": "image/png", ".webmanifest": "application/manifest+json",
}

func load() (*Asset, map[string]*Asset) {
	all, sum := map[string][]byte{}, sha256.New()
	err := fs.WalkDir(files, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := files.ReadFile(name)
		all[name] = b
		fmt.Fprintf(sum, "%s %d\n", name, len(b))
		sum.Write(b)
		return err
	})
	if err != nil {
		panic(err) // what is embedded can be read
	}
	root := hex.EncodeToString(sum.Sum(nil)[:8])
	out := map[string]*Asset{}
	for name, b := range all {
		switch ext := path.Ext(name); {
		case name == "index.html" || ext == "" || types[ext] == "": // LICENCES and SUMS are for who reads the source
		case ext == ".webmanifest":
			out[name] = newAsset(ext, bytes.ReplaceAll(b, []byte("{{root}}"), []byte(root)), false)
		default:
			out[root+"/"+name] = newAsset(ext, b, true)
		}
	}
	html := strings.Replace(string(all["index.html"]), "<!--preload-->", preload(all), 1)
	return newAsset(".html", []byte(strings.ReplaceAll(html, "{{root}}", "ui/"+root)), false), out
}

// imported finds what a module needs before it runs.
var imported = regexp.MustCompile(`(?m)^(?:import|export) [^;]*?["'](\.\.?/[^"']+)["'];|^import["'](\.[^"']+)|from["'](\./[^"']+)["']`)

// needs are the modules that the page's first one leads to, in order; a browser would find them one
// after the other.
func needs(all map[string][]byte, name string, seen []string) []string {
	for _, m := range imported.FindAllSubmatch(all[name], -1) {
		to := path.Join(path.Dir(name), string(bytes.Join(m[1:], nil)))
		if !slices.Contains(seen, to) {
			seen = needs(all, to, append(seen, to))
		}
	}
	return seen
}

func preload(all map[string][]byte) string {
	var b strings.Builder
	for _, name := range needs(all, "app/main.js", []string{"app/main.js"})[1:] {
		fmt.Fprintf(&b, "<link rel=\"modulepreload\" href=\"{{root}}/%s\">\n", name)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

func newAsset(ext string, b []byte, keep bool) *Asset {
	sum := sha256.Sum256(b)
	return &Asset{Type: types[ext], Tag: `"` + hex.EncodeToString(sum[:12]) + `"`, Keep: keep, Plain: b,
		pack: sync.OnceValue(func() []byte {
			if strings.HasPrefix(types[ext], "image/png") {
				return nil
			}
			var out bytes.Buffer
			w, _ := gzip.NewWriterLevel(&out, gzip.BestCompression)
			_, _ = w.Write(b)
			_ = w.Close()
			if out.Len() >= len(b) {
				return nil
			}
			return out.Bytes()
		})}
}
