//go:build !notrace

package engine

// tracing is false in a build with the tag notrace, which leaves the hooks of profiling out: for
// measuring what they cost when passes are not traced (testdata/profile/run.sh), nothing else.
const tracing = true
