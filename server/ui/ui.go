// Package ui is the one page the server shows to people: a chat, what is loaded, and how warm the card is. One file, nothing fetched from
// elsewhere, no build step. Its script and style are inside it and named by their hashes in the page's content security policy, so that
// nothing else can run in it.
package ui

import (
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"strings"
)

//go:embed index.html
var page string

// Page is the page's HTML.
func Page() []byte { return []byte(page) }

// Policy is the page's Content-Security-Policy.
func Policy() string {
	return "default-src 'none'; script-src " + hash("script") + "; style-src " + hash("style") +
		"; connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
}

// hash is the hash of the content of the page's one element of that name.
func hash(tag string) string {
	_, rest, _ := strings.Cut(page, "<"+tag+">")
	body, _, _ := strings.Cut(rest, "</"+tag+">")
	sum := sha256.Sum256([]byte(body))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}
