package main

import (
	"errors"
	"os"
	"path/filepath"

	"go.uber.org/zap"

	"github.com/axle-llm/axle/server/mcp"
)

// mcpSettings are those of servers whose tools are run.
type mcpSettings struct {
	file   string // ""; there are none
	socket string // behind which systemd starts them; "": we do
}

// own are the files and folders that are this server's alone: secrets, and what its users wrote.
func (s *settings) own(store string) (paths []string) {
	all := []string{s.keysFile, s.tlsKey, s.runsOn.rowsSecret, s.runsOn.rows, s.chats.dir, store}
	if s.documents.folder != noDocuments {
		all = append(all, s.documents.folder)
	}
	if store != "" {
		all = append(all, filepath.Join(store, "tls"))
	}
	if s.runsOn.objects != "" {
		all = append(all, os.Getenv("AWS_SHARED_CREDENTIALS_FILE"))
	}
	for _, p := range all {
		if p != "" {
			paths = append(paths, p)
		}
	}
	return paths
}

// tools reads the file of MCP servers. None of them can open what this server keeps to itself, even
// where it runs as the same user.
func (s *service) tools() (*mcp.Tools, error) {
	if s.mcp.file == "" {
		return nil, nil
	}
	o := mcp.Options{File: s.mcp.file, Socket: s.mcp.socket, Version: version, LogPrompts: s.settings.server.LogPrompts, Log: s.log}
	o.Hide = s.own(s.machine.store.Dir())
	t, err := mcp.New(o)
	if err != nil {
		return nil, err
	}
	s.reloads = append(s.reloads, reloading{"tool servers", t.Reload})
	if s.keys == nil && !isLoopback(s.main.Addr()) {
		if s.settings.server.AllowMCP {
			s.log.Warn("tools are run for everyone who reaches this port: --keys-file lets in only whom you know",
				zap.String("address", s.main.Addr().String()))
		} else {
			s.log.Warn("no tools are run, since other machines reach this port without a key: set --keys-file, or --allow-mcp")
		}
	}
	closed := s.machine.close
	s.machine.close = func() error { return errors.Join(t.Close(), closed()) }
	return t, nil
}
