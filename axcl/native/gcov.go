//go:build cgo && !fake && linux && gcov

package native

/*
void __gcov_dump(void);
static int dump(void) { __gcov_dump(); return 0; }
*/
import "C"

// dumpCoverage writes what gcc's --coverage counted: a Go program ends without C's exit handlers.
// Only the coverage script builds this.
func dumpCoverage() { C.dump() }
