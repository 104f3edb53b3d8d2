package cards

import (
	"io/fs"
	"strconv"
	"strings"
	"syscall"
)

// ownerOf says whose a file is; group is its group's name, or number. ok is false where the file
// system does not say.
func ownerOf(root fs.FS, name string) (o owned, group string, ok bool) {
	fi, err := fs.Stat(root, name)
	if err != nil {
		return o, "", false
	}
	st, ok := fi.Sys().(*syscall.Stat_t)
	if !ok {
		return o, "", false
	}
	group = strconv.Itoa(int(st.Gid))
	for line := range strings.Lines(text(root, "etc/group")) {
		if f := strings.Split(line, ":"); len(f) > 2 && f[2] == group {
			group = f[0]
			break
		}
	}
	return owned{uid: st.Uid, gid: st.Gid, perm: fi.Mode().Perm()}, group, true
}
