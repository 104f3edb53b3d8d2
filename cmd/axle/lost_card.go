//go:build !scripted

package main

import (
	"os"
	"path/filepath"
	"slices"
	"sync"

	"go.uber.org/zap"
)

// lostCard remembers, beyond the end of the process, that the card that "auto" had chosen was lost.
// Until it is back, auto means that card. The software card cannot run its models, and a card that
// comes back a minute later would stay unused.
type lostCard struct {
	file   string // in the store; empty: nothing is remembered
	device string // what is opened
	auto   bool
	log    *zap.Logger

	mu   sync.Mutex
	kind string // of the card that was opened
	gone bool   // it was lost, which may be known before it is told of as open
}

func rememberLostCard(dir, device string, log *zap.Logger) *lostCard {
	a := &lostCard{device: device, auto: device == "" || device == "auto", log: log}
	if dir == "" {
		return a
	}
	a.file = filepath.Join(dir, "card-lost")
	b, err := os.ReadFile(a.file)
	switch {
	case err != nil:
	case a.auto && slices.Contains([]string{"axcl", "axengine"}, string(b)):
		a.device = string(b)
		log.Warn("the card was lost when this server last ran: it is waited for, and the software card not taken in its place; --device "+
			"soft does that, and forgets the card",
			zap.String("device", a.device), zap.String("file", a.file))
	default:
		a.forget()
	}
	return a
}

func (a *lostCard) forget() {
	if err := os.Remove(a.file); err != nil && !os.IsNotExist(err) {
		a.log.Warn("that a card was lost cannot be forgotten", zap.Error(err))
	}
}

// opened: a card is there.
func (a *lostCard) opened(kind string) {
	if !a.auto || a.file == "" || kind == "soft" {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.kind = kind
	if a.forget(); a.gone {
		a.keep()
	}
}

// lost: it is no more.
func (a *lostCard) lost() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.gone = true
	if a.kind != "" {
		a.keep()
	}
}

func (a *lostCard) keep() {
	if err := os.WriteFile(a.file, []byte(a.kind), 0o600); err != nil {
		a.log.Warn("that the card was lost cannot be remembered: the next start may take the software card", zap.Error(err))
	}
}
