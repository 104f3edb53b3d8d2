// Package launch starts other people's programs for a server, as package programs describes them:
// with variables and flags, or with entries in their own configuration, which it can take back.
//
// A key is given in the environment alone: what is on a command line is seen by every user of the
// machine. Functions may be called from any goroutine; nothing here holds a resource.
package launch
