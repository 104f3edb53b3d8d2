// Package packaging holds what turns a built binary into something that is installed: the Debian package, the service, archives, a
// container. There is no code here but tests: of the unit file, the scripts' results, and docs/haproxy.cfg in front of three servers.
package packaging
