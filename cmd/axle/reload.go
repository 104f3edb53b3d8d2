package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"go.uber.org/zap"
	"golang.org/x/term"
)

// reload reads again, on each SIGHUP, what may change while the server runs: its keys and its
// certificate. What is wrong is left as it was, and told. A server in a terminal that has nothing
// to read again ends with its terminal, as every program does.
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
