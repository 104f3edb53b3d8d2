package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"go.uber.org/zap"
	"golang.org/x/term"
)

// reload reads keys and certificate again on each SIGHUP. If a file is wrong, the server goes on
// with the former one and logs it. A server in a terminal that has nothing to read again ends with
// its terminal, as every program does.
func (s *service) reload(run context.Context) {
	if len(s.reloads) == 0 && term.IsTerminal(int(os.Stdin.Fd())) {
		return
	}
	hup := make(chan os.Signal, 1)
	signal.Notify(hup, syscall.SIGHUP)
	go func() {
		defer signal.Stop(hup)
		for {
			select {
			case <-run.Done():
				return
			case <-hup:
				s.readAgain()
			}
		}
	}()
}

func (s *service) readAgain() {
	if len(s.reloads) == 0 {
		s.log.Info("SIGHUP: there is nothing to read again; other settings take a restart")
	}
	for _, r := range s.reloads {
		if err := r.again(); err != nil {
			s.log.Error("reading again failed: all is as it was", zap.String("what", r.what), zap.Error(err))
		} else {
			s.log.Info("read again", zap.String("what", r.what))
		}
	}
}

// reloading is something that may be read again.
type reloading struct {
	what  string
	again func() error
}
