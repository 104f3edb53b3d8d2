package main

import (
	"fmt"

	"go.uber.org/zap"

	"github.com/axle-llm/axle/server/conversations"
	"github.com/axle-llm/axle/server/conversations/journal"
)

// chatSettings are the settings of conversations that the server keeps.
type chatSettings struct {
	dir  string // "": none are kept
	size int64  // bytes of one key's; 0: journal.DefaultSize
}

// open opens the folder of conversations. Without one the room keeps none. apart: those who ask are
// told apart by keys, or are all of this machine.
func (c chatSettings) open(log *zap.Logger, apart bool) (*conversations.Room, error) {
	if c.dir == "" {
		return &conversations.Room{}, nil
	}
	f, err := journal.Open(journal.Options{Dir: c.dir, Size: c.size, Damage: func(err error) {
		log.Error("conversations that the server keeps are damaged", zap.Error(err))
	}})
	if err != nil {
		return nil, fmt.Errorf("serve: --conversations: %w", err)
	}
	if !apart {
		log.Warn("conversations are kept beyond this machine without keys: anyone who reaches this port may read and delete them; see "+
			"--keys-file", zap.String("folder", c.dir))
	}
	return &conversations.Room{Folder: f}, nil
}

// parseChatSize is parseSize of what holds a conversation with pictures at the least.
func parseChatSize(v string) (int64, error) {
	n, err := parseSize(v)
	if err == nil && n < 64<<20 {
		err = fmt.Errorf("%q is less than 64MiB, which one conversation may take; without --conversations none are kept", clip(v))
	}
	return n, err
}
