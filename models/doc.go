// Package models reads language models on disk: folders of .axmodel files in every layout the
// vendor's tool chain and its users produced, and names and digests, which have one parser each.
//
// A [Package] is opened once, checked whole (parsed in Go only, before any card sees a byte of it),
// and then read-only: all its methods are safe for concurrent use. The caller closes it, after the
// last user of its embeddings is done; nothing else holds a resource. Nothing in a package can name
// a file outside it: every path goes through [os.Root] or a file system that has no outside.
//
// The sub-package store keeps models by name; hub fetches them.
package models
