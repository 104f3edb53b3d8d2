// Package packaging holds what makes an installed program of a built binary: the Debian package,
// the service, archives, a container. Its only code is tests: of the unit file, of what the scripts
// make, and of docs/haproxy.cfg in front of three servers.
package packaging
