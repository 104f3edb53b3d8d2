package cards

import (
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/axle-llm/axle/axcl"
)

// rulesFile gives the nodes to the server's group, whose name the service has too.
const (
	rulesFile   = "/usr/lib/udev/rules.d/70-axle.rules"
	serviceName = "axle"
)

// person is who would open a node.
type person struct {
	name string
	uid  uint32
	gids []uint32
}

// whoami is the user of this process, or the one who became root by sudo: the card is to be theirs.
func whoami() person {
	if name := os.Getenv("SUDO_USER"); os.Getuid() == 0 && name != "" && name != "root" {
		if p, ok := lookUp(os.DirFS("/"), name, nil); ok {
			return p
		}
	}
	p := person{name: strconv.Itoa(os.Getuid()), uid: uint32(os.Getuid()), gids: []uint32{uint32(os.Getgid())}}
	if u, err := user.Current(); err == nil {
		p.name = u.Username
	}
	groups, _ := os.Getgroups()
	for _, g := range groups {
		p.gids = append(p.gids, uint32(g))
	}
	return p
}

// owned is whose a file is, and what it lets them do.
type owned struct {
	uid, gid uint32
	perm     fs.FileMode
}

// opens says whether p may read and write what is so owned, as the kernel decides it (lists of
// access beside the mode are not looked at).
func (p person) opens(o owned) bool {
	const rw = 6
	switch {
	case p.uid == 0:
		return true
	case p.uid == o.uid:
		return o.perm>>6&rw == rw
	case slices.Contains(p.gids, o.gid):
		return o.perm>>3&rw == rw
	}
	return o.perm&rw == rw
}

// service is what the installed unit says of who runs the server and what that may open.
type service struct {
	file   string // of the unit
	person person
	known  bool     // the person is one of this machine's
	closed bool     // only what allow lists may be opened
	allow  []string // DeviceAllow's first words
}

// units are the folders of units, the first that has one counts.
var units = []string{"etc/systemd/system", "run/systemd/system", "usr/local/lib/systemd/system", "usr/lib/systemd/system",
	"lib/systemd/system"}

// readService reads the unit and what was put beside it; ok is false where none is installed.
func readService(root fs.FS) (s service, ok bool) {
	var files []string
	for _, dir := range units {
		if f := dir + "/" + serviceName + ".service"; exists(root, f) {
			s.file, files = "/"+f, []string{f}
			break
		}
	}
	if s.file == "" {
		return s, false
	}
	for _, dir := range slices.Backward(units) {
		beside, _ := fs.Glob(root, dir+"/"+serviceName+".service.d/*.conf")
		files = append(files, beside...)
	}
	who, more := "root", []string{}
	for _, f := range files {
		for line := range strings.Lines(text(root, f)) {
			key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
			switch value = strings.TrimSpace(value); strings.TrimSpace(key) {
			case "User":
				who = value
			case "SupplementaryGroups":
				more = append(more, strings.Fields(value)...)
			case "DevicePolicy":
				s.closed = value == "closed" || value == "strict"
			case "DeviceAllow":
				if node, _, _ := strings.Cut(value, " "); node != "" {
					s.allow = append(s.allow, node)
				} else {
					s.allow = nil
				}
			}
		}
	}
	s.person, s.known = lookUp(root, who, more)
	return s, true
}

// allows says whether the unit lets the service open a node.
func (s service) allows(node string) bool {
	if !s.closed && len(s.allow) == 0 {
		return true
	}
	for _, a := range s.allow {
		if pattern, group := strings.CutPrefix(a, "char-"); group {
			if ok, _ := path.Match(pattern, node); ok {
				return true
			}
		} else if a == "/dev/"+node {
			return true
		}
	}
	return false
}

// lookUp finds a user of the machine and the groups that are theirs.
func lookUp(root fs.FS, name string, more []string) (p person, ok bool) {
	for line := range strings.Lines(text(root, "etc/passwd")) {
		f := strings.Split(strings.TrimSpace(line), ":")
		if len(f) < 4 || f[0] != name {
			continue
		}
		uid, err1 := strconv.ParseUint(f[2], 10, 32)
		gid, err2 := strconv.ParseUint(f[3], 10, 32)
		if err1 != nil || err2 != nil {
			return p, false
		}
		p, ok = person{name: name, uid: uint32(uid), gids: []uint32{uint32(gid)}}, true
	}
	for line := range strings.Lines(text(root, "etc/group")) {
		f := strings.Split(strings.TrimSpace(line), ":")
		if len(f) < 4 {
			continue
		}
		if gid, err := strconv.ParseUint(f[2], 10, 32); err == nil && (slices.Contains(strings.Split(f[3], ","), name) ||
			slices.Contains(more, f[0])) {
			p.gids = append(p.gids, uint32(gid))
		}
	}
	return p, ok
}

// rule is what gives a node to the server's group.
func rule(node string) string {
	return fmt.Sprintf("KERNEL==%q, GROUP=%q, MODE=\"0660\"", node, serviceName)
}

// nodes looks at each node of the library's: whether it is there, whether this user and the
// service's may read and write it, and whether the service's unit lets it. It is asked where the
// first of them is there.
func (r *Report) nodes(root fs.FS, me person) {
	state := Problem
	if r.Usable {
		state = Note
	}
	var here, missing []string
	for _, n := range axcl.Nodes() {
		if exists(root, "dev/"+n.Name) {
			here = append(here, "/dev/"+n.Name)
		} else if !n.Several {
			missing = append(missing, fmt.Sprintf("/dev/%s (needed %s)", n.Name, n.For))
		}
	}
	if len(missing) > 0 {
		r.add("driver", state, fmt.Sprintf("%s there, missing: %s", isAre(here), list(missing)),
			"the driver's other modules are not loaded: see `sudo dmesg | grep -i axcl`, then sudo modprobe axcl_host, or install the "+
				"vendor's package anew")
		r.mend(command("modprobe", "axcl_host"))
	} else {
		r.add("driver", OK, isAre(here)+" there", "")
	}
	s, installed := readService(root)
	var shut, rules, names, forbidden []string
	mine := false
	for _, node := range here {
		node = strings.TrimPrefix(node, "/dev/")
		//rule:D1 TestNodes false
		if installed && !s.allows(node) {
			forbidden = append(forbidden, "/dev/"+node)
		}
		o, group, ok := ownerOf(root, "dev/"+node)
		if !ok {
			continue
		}
		var who []string
		//rule:D1 TestNodes false
		if !me.opens(o) {
			who, mine = append(who, "this user, "+me.name), true
		}
		if installed && s.known && !s.person.opens(o) {
			who = append(who, "the service's, "+s.person.name)
		}
		if len(who) == 0 {
			continue
		}
		shut = append(shut, fmt.Sprintf("/dev/%s (%s, %04o) is closed to %s", node, group, o.perm, list(who)))
		if group != serviceName || o.perm&0o060 != 0o060 {
			rules, names = append(rules, rule(node)), append(names, "--sysname-match="+node)
		}
	}
	if len(shut) > 0 {
		var fix []string
		if len(rules) > 0 {
			have := "write into " + rulesFile
			if exists(root, rulesFile[1:]) {
				have = rulesFile + " should have, or is overruled in,"
			}
			fix = append(fix, fmt.Sprintf("%s the line%s %s; then sudo udevadm control --reload, sudo udevadm trigger %s", have,
				plural(len(rules)), strings.Join(rules, " and "), strings.Join(names, " ")))
		}
		if mine {
			fix = append(fix, fmt.Sprintf("sudo usermod -aG %s %s, and log in again", serviceName, me.name))
		}
		if !mine { // the card can be used, by this user
			state = Problem
		}
		r.add("device nodes", state, strings.Join(shut, "; "), strings.Join(fix, "; "))
		r.mend(opened(root, rules, names, mine, me)...)
	}
	if len(forbidden) > 0 {
		r.add("service", Problem, fmt.Sprintf("the unit %s does not let the server open %s", s.file, list(forbidden)),
			"add DeviceAllow="+strings.Join(forbidden, " rw, DeviceAllow=")+
				" rw (the package's unit has them: a copy in /etc/systemd/system hides it), then sudo systemctl daemon-reload and sudo "+
				"systemctl restart "+serviceName)
		var allow []string
		for _, node := range forbidden {
			allow = append(allow, "DeviceAllow="+node+" rw")
		}
		r.mend(Action{File: "/etc/systemd/system/" + serviceName + ".service.d/devices.conf",
			Lines: append([]string{"[Service]"}, allow...)},
			command("systemctl", "daemon-reload"), command("systemctl", "restart", serviceName))
	}
	r.realTime(root, me)
}

// realTime explains what threads of the library are refused, which they do without.
func (r *Report) realTime(root fs.FS, me person) {
	for line := range strings.Lines(text(root, "proc/self/limits")) {
		value, ok := strings.CutPrefix(line, "Max realtime priority")
		if f := strings.Fields(value); ok && len(f) > 0 && f[0] == "0" && me.uid != 0 {
			r.add("real-time priority", Note, "the library's listening threads ask for it, are refused it for this user and go on "+
				"without: on a busy machine answers of the card wait longer",
				"the service is allowed it (LimitRTPRIO in its unit); for a login, a line in /etc/security/limits.conf: "+me.name+
					" - rtprio 99")
		}
	}
}

// list is "a, b and c".
func list(s []string) string {
	if len(s) < 2 {
		return strings.Join(s, "")
	}
	return strings.Join(s[:len(s)-1], ", ") + " and " + s[len(s)-1]
}

// isAre is "a is", or "a and b are".
func isAre(s []string) string {
	if len(s) == 1 {
		return s[0] + " is"
	}
	return list(s) + " are"
}

func plural(n int) string {
	if n == 1 {
		return ""
	}
	return "s"
}
