//go:build cgo && !fake && linux && gcov

package native

/*
void __gcov_dump(void);
*/
import "C"

// dumpCoverage writes what gcc's --coverage counted: a Go program ends without C's exit handlers. Only the coverage script builds this.
func dumpCoverage() { C.__gcov_dump() }
