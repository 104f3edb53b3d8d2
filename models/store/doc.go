// Package store keeps models by name: manifests that name blobs, blobs named by their SHA-256,
// packages found in place, and a model that ships inside the program. It is laid out as Ollama lays
// out its own, so that one folder can serve both.
//
//	manifests/<host>/<namespace>/<model>/<tag>   JSON: the files of a package by digest, and what a Modelfile adds
//	blobs/sha256-<64 hex>                        a file; immutable
//	blobs/sha256-<64 hex>-partial                a download in progress, and beside it .parts, how far it is
//	.lock  .serving-<16 characters>              the lock for changes; a server at work, see [Store.Guard]
//	cache/<64 hex>/                              the built-in model's files, written out where a library needs paths
//
// What a power cut or a kill leaves behind is only ever something unfinished that nothing points
// at: a blob is written under another name, synced, hashed whole from disk, renamed, its folder
// synced; a manifest is written after all its blobs; a blob is removed after all manifests that
// named it. A pull, a create and a delete may run at once, also in several processes: a commit and
// a removal hold the lock file, and a commit checks under it that every blob is still there.
//
// A [Store] may be used from any goroutine. It holds one folder open; Close releases it. Packages
// that a [Model] opens belong to the caller.
package store
