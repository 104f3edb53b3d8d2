package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"go.uber.org/zap"
)

// tellPaths warns of folders of packages that cannot be read. Their models are missing from every
// list, and nothing else says why.
func tellPaths(log *zap.Logger, paths []string) {
	for _, p := range paths {
		f, err := os.Open(p)
		if err == nil {
			_ = f.Close()
			continue
		}
		help := "AXLE_MODEL_PATH and --model-path name folders that are there"
		if errors.Is(err, fs.ErrPermission) {
			help = "let the server's user read it and enter the folders above it"
			if closedHome(p) {
				help = "if this is the service, /home is closed to it (ProtectHome in axle.service): put the package under /opt or /srv, " +
					"readable for everyone"
			}
		}
		log.Warn("a folder of models cannot be read: its models are left out", zap.String("folder", p), zap.Error(err),
			zap.String("help", help))
	}
}

// closedHome: p is below what systemd closes to a service with ProtectHome.
func closedHome(p string) bool {
	return slices.ContainsFunc([]string{"/home", "/root", "/run/user"}, func(home string) bool {
		clean := filepath.Clean(p)
		return clean == home || strings.HasPrefix(clean, home+"/")
	})
}
