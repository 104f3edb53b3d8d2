//go:build !scripted

package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/axle-llm/axle/models"
	"github.com/axle-llm/axle/models/store"
)

// openPackage opens a model by its name in the store, or by the path of its folder. The caller closes it.
func openPackage(name string) (*models.Package, error) {
	if st, err := os.Stat(name); err == nil && st.IsDir() {
		return models.Open(name)
	}
	if strings.ContainsRune(name, os.PathSeparator) && (strings.HasPrefix(name, ".") || strings.HasPrefix(name, "/")) {
		return nil, fmt.Errorf("%s: no such folder", name)
	}
	s, err := store.Open(storeOptions())
	if err != nil {
		return nil, err
	}
	defer s.Close()
	m, err := s.Get(name)
	if err != nil {
		return nil, fmt.Errorf("%w; 'axle list' shows what there is, 'axle pull' without a name what can be fetched", err)
	}
	return m.Open()
}
