// Package body is what every dialect does with the body of a request and of an answer: it weighs
// what a body holds before it is decoded, says what is wrong with it, and writes text as JSON. It
// knows no dialect, and nothing of HTTP but the statuses that errors carry.
//
// The functions are pure and safe for concurrent use. Nothing here holds a resource.
package body
