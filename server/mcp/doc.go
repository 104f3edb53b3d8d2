// Package mcp runs the tools of Model Context Protocol servers: it reads which servers there are,
// starts them when one of their tools is first wanted, lists what they offer, and calls them, each
// within limits of time, size and number.
//
// What a server says is data of a stranger. Its names become names that every API takes, its texts
// are cut and cleaned, its tools are left out where their schema is none, and whatever it does
// (hang, flood, die, lie) ends in one error that names it.
//
// Each owner (a key, see package access) has sessions of its own: a process that one key's calls
// reached is never asked for another. A program that runs here is started by [Child], which takes
// its privileges away before it begins: see spec.go and child.go.
//
// [Tools] may be used from any goroutine. Close ends every server and waits until it is gone.
package mcp
