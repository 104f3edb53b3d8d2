// Command init is the one process of the emulated machine: it runs every program in /tests, one after the other, says how each ended, and
// switches the machine off. packaging/avx512.sh builds it and reads what it says.
package main

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
)

func main() {
	defer off()
	// What each program is given: /arguments and /environment, words apart.
	args, environment := lines("/arguments"), lines("/environment")
	tests, err := os.ReadDir("/tests")
	if err != nil {
		fmt.Println("init:", err)
		return
	}
	for _, t := range tests {
		run := exec.Command("/tests/"+t.Name(), args...)
		run.Env, run.Dir, run.Stdout, run.Stderr = append(environment, "TMPDIR=/tmp"), "/tmp", os.Stdout, os.Stderr
		end := "passed"
		if err := run.Run(); err != nil {
			end = err.Error()
		}
		fmt.Printf("init: %s: %s\n", t.Name(), end)
	}
}

func lines(name string) []string {
	text, _ := os.ReadFile(name)
	return strings.Fields(string(text))
}

// off ends the emulator, which takes a reset for the end; first what was written has to have left the serial line.
func off() {
	fmt.Println("init: the end")
	const drain = 0x5409 // TCSBRK with an argument: wait until the line has sent all
	_, _, _ = syscall.Syscall(syscall.SYS_IOCTL, os.Stdout.Fd(), drain, 1)
	fmt.Println("init: the machine stays on:", syscall.Reboot(syscall.LINUX_REBOOT_CMD_RESTART))
}
