package modelstest

import (
	"slices"
	"strings"
)

// HostileNames are more than two hundred strings that someone might send as a model's name to reach
// a file, a host or a shell. Some are valid names that merely look odd; none may touch anything
// outside the store.
func HostileNames() []string {
	parts := []string{
		"..", "../..", "../../etc/passwd", "../../../../../../etc/shadow", "..\\..\\windows", "/etc/passwd", "//etc/passwd", "/", "./x",
		".", "./..", ".../x",
		"%2e%2e/%2e%2e", "%2e%2e%2f", "..%2f..%2f", "..%c0%af", "%00", "x\x00y", "x\x00.json", "\x00", "~", "~/x", "~root", "$HOME",
		"${HOME}", "`id`", "$(id)",
		"x;id", "x|id", "x&id", "x>y", "x<y", "x y", " x", "x ", "\tx", "x\n", "x\r\nHost: evil", "-rf", "--help", "-", "_/..", "a/../b",
		"a/./b", "a//b", "a/", "/a",
		"a/b/", "a/b/c/d", "a/b/c/d/e", "con", "nul", "aux.txt", "C:", "C:\\x", "c:/x", "\\\\host\\share", "file:///etc/passwd",
		"http://x/y/z", "https://evil/a/b",
		"javascript:alert(1)", "data:x", "ssh://x", "@", "a@b", "a@sha256:0", "@sha256:00", "a:b:c", ":", "::", "a:", ":a", "a:/", "a:../b",
		"a:..", "a:.", "a:.x", "a:b/c",
		"sha256:../x", "sha256-x", "\u202ex", "x\u202e", "\u2028", "\uff0e\uff0e/", "é", "模型", "😀", "\xff", "\xc0\xae\xc0\xae/",
		"x\xed\xa0\x80", "*", "?", "[a]", "{a,b}", "!", "#",
		"x#y", "x?y=z", "x&y", "'", "\"", "x'y", "\\", "x\\y", "<script>", "</script>", "{{.}}", "%s%s%n", "%d", "{}", "[]", "null", "true",
		"0", "-1", "1e999", "NaN",
		".git", ".git/config", ".lock", ".ssh/id_rsa", "..x", "x..", "x../y", "manifests", "blobs", "blobs/sha256-0", "manifests/../blobs",
		"library/../../x", "registry.ollama.ai/../../x/y",
		"registry.ollama.ai/library/../x", "registry.ollama.ai/library/x/..", "..:..", "../x:y", "a/..:b", "a/b:../../../c", "host/../x/y",
		"../host/x/y", "host:22/../x", "-a/b", ".a/b", "a/.b", "a/-b",
		strings.Repeat("a", 81), strings.Repeat("a", 5000), strings.Repeat("../", 100) + "etc/passwd", strings.Repeat("a/", 100),
		strings.Repeat(":", 100), "a:" + strings.Repeat("b", 81),
		strings.Repeat("h", 351) + "/a/b", strings.Repeat("%", 100), strings.Repeat("\x00", 50), "a\x00/../../b", "x\u0000", "x\u200b",
		"\ufeffx", "x\u00a0y",
	}
	out := slices.Clone(parts)
	for _, p := range parts[:60] { // and each in a place where a parser may look less closely
		out = append(out, "library/"+p, "x:"+p, p+"/x")
	}
	return append(out, "")
}
