package mcp

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Limits of a server's process.
var limits = []struct {
	what int
	most uint64
}{{unix.RLIMIT_CORE, 0}, {unix.RLIMIT_NOFILE, 1024}, {unix.RLIMIT_FSIZE, 4 << 30}, {unix.RLIMIT_DATA, 4 << 30},
	{unix.RLIMIT_MEMLOCK, 8 << 20}, {unix.RLIMIT_RTPRIO, 0}}

// giveUp takes from this thread, and from what it becomes, what a server is not to have.
func giveUp(hide []string) error {
	// Whatever this process has open, except its three streams, does not outlive exec.
	if err := unix.CloseRange(3, ^uint(0)>>1, unix.CLOSE_RANGE_CLOEXEC); err != nil {
		if err := closeOnExec(); err != nil {
			return fmt.Errorf("closing descriptors: %w", err)
		}
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("no new privileges: %w", err)
	}
	for _, l := range limits {
		var had unix.Rlimit
		if err := unix.Getrlimit(l.what, &had); err != nil {
			return fmt.Errorf("limits: %w", err)
		}
		most := min(l.most, had.Max)
		if err := unix.Setrlimit(l.what, &unix.Rlimit{Cur: most, Max: most}); err != nil {
			return fmt.Errorf("limits: %w", err)
		}
	}
	if landlocks() == 0 {
		return nil // said in the log by who starts us
	}
	return shut(hide)
}

// closeOnExec is for kernels before 5.11.
func closeOnExec() error {
	all, err := os.ReadDir("/proc/self/fd")
	for _, e := range all {
		var fd int
		if _, err := fmt.Sscan(e.Name(), &fd); err == nil && fd > 2 {
			unix.CloseOnExec(fd)
		}
	}
	return err
}

// landlocks is the version of Landlock that the kernel has; 0: none.
func landlocks() int {
	v, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 {
		return 0
	}
	return int(v)
}

const (
	onFiles = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_READ_FILE |
		unix.LANDLOCK_ACCESS_FS_TRUNCATE | unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
	onDirs = unix.LANDLOCK_ACCESS_FS_READ_DIR | unix.LANDLOCK_ACCESS_FS_REMOVE_DIR | unix.LANDLOCK_ACCESS_FS_REMOVE_FILE |
		unix.LANDLOCK_ACCESS_FS_MAKE_CHAR | unix.LANDLOCK_ACCESS_FS_MAKE_DIR | unix.LANDLOCK_ACCESS_FS_MAKE_REG |
		unix.LANDLOCK_ACCESS_FS_MAKE_SOCK | unix.LANDLOCK_ACCESS_FS_MAKE_FIFO | unix.LANDLOCK_ACCESS_FS_MAKE_BLOCK |
		unix.LANDLOCK_ACCESS_FS_MAKE_SYM | unix.LANDLOCK_ACCESS_FS_REFER
)

// devices are those that a program may need and no harm comes from.
var devices = []string{"null", "zero", "full", "random", "urandom", "tty", "ptmx", "pts", "shm"}

// wall is a set of what may be opened.
type wall struct {
	set    int
	rights uint64
	hide   []string
}

// shut leaves everything to this thread but devices and what is to be hidden, even its own.
func shut(hide []string) error {
	v := landlocks()
	w := wall{rights: onFiles | onDirs, hide: append([]string{"/dev"}, hide...)}
	if v < 2 {
		w.rights &^= unix.LANDLOCK_ACCESS_FS_REFER
	}
	if v < 3 {
		w.rights &^= unix.LANDLOCK_ACCESS_FS_TRUNCATE
	}
	if v < 5 {
		w.rights &^= unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
	}
	attr := unix.LandlockRulesetAttr{Handled_access_fs: w.rights}
	size := unsafe.Sizeof(attr.Handled_access_fs)
	if v >= 6 { // it cannot end this server's process, which may be of the same user
		attr.Scoped = unix.LANDLOCK_SCOPE_SIGNAL | unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET
		size = unsafe.Offsetof(attr.Scoped) + unsafe.Sizeof(attr.Scoped)
	}
	set, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&attr)), size, 0)
	if errno != 0 {
		return fmt.Errorf("landlock: %w", errno)
	}
	w.set = int(set)
	defer unix.Close(w.set)
	err := errors.Join(w.allow("/"), w.rule("/", unix.LANDLOCK_ACCESS_FS_READ_DIR))
	for _, d := range devices {
		err = errors.Join(err, w.rule("/dev/"+d, w.rights))
	}
	if err != nil {
		return err
	}
	if _, _, errno := unix.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, set, 0, 0); errno != 0 {
		return fmt.Errorf("landlock: %w", errno)
	}
	return nil
}

// allow lets everything below path be used that is not hidden. What is made later beside something
// hidden stays shut.
func (w *wall) allow(path string) error {
	if slices.Contains(w.hide, path) {
		return nil
	}
	below := strings.TrimSuffix(path, "/") + "/"
	if !slices.ContainsFunc(w.hide, func(h string) bool { return strings.HasPrefix(h, below) }) {
		return w.rule(path, w.rights)
	}
	all, err := os.ReadDir(path)
	if err != nil {
		return nil // what cannot be listed stays shut
	}
	for _, e := range all {
		if e.Type()&os.ModeSymlink == 0 {
			err = errors.Join(err, w.allow(filepath.Join(path, e.Name())))
		}
	}
	return err
}

// rule allows rights on path, where it is there.
func (w *wall) rule(path string, rights uint64) error {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil // it is not there, or not ours to use
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return fmt.Errorf("landlock: %s: %w", path, err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		rights &= onFiles
	}
	attr := unix.LandlockPathBeneathAttr{Allowed_access: rights, Parent_fd: int32(fd)}
	_, _, errno := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, uintptr(w.set), unix.LANDLOCK_RULE_PATH_BENEATH,
		uintptr(unsafe.Pointer(&attr)), 0, 0, 0)
	if errno != 0 {
		return fmt.Errorf("landlock: %s: %w", path, errno)
	}
	return nil
}

// hungUp returns when the other end of a socket is gone.
func hungUp(f *os.File) {
	fds := []unix.PollFd{{Fd: int32(f.Fd()), Events: unix.POLLRDHUP}}
	for {
		n, err := unix.Poll(fds, -1)
		if err != nil && !errors.Is(err, unix.EINTR) || n > 0 {
			return
		}
	}
}

// ended returns when a process has ended, and leaves it to be waited for.
func ended(pid int) {
	for {
		if err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil); !errors.Is(err, unix.EINTR) {
			return
		}
	}
}
