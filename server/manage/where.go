package manage

import (
	"net/http"
	"net/netip"
	"os/user"
	"path/filepath"

	"github.com/axle-llm/axle/server/request"
)

// Where is the answer of /api/axle/store.
type Where struct {
	Folder string   `json:"folder"` // the store's
	Paths  []string `json:"paths"`  // of packages in place
	User   string   `json:"user"`   // as whom the server runs; empty where that is not known
}

// Where answers GET /api/axle/store: where models are, for commands on this machine that read files
// themselves. Others learn nothing of the machine's folders.
func (m *Manager) Where(x *request.Exchange) error {
	peer, err := netip.ParseAddrPort(x.Request.RemoteAddr)
	for _, h := range []string{"Forwarded", "X-Forwarded-For", "X-Real-Ip"} {
		if x.Request.Header.Get(h) != "" {
			peer = netip.AddrPort{}
		}
	}
	if err != nil || !peer.Addr().Unmap().IsLoopback() {
		return request.Error(http.StatusForbidden, "where models are kept is told on the server's own machine only")
	}
	w := Where{Folder: m.o.Store.Dir(), Paths: []string{}}
	for _, p := range m.o.Store.Paths() {
		if abs, err := filepath.Abs(p); err == nil {
			w.Paths = append(w.Paths, abs)
		}
	}
	if u, err := user.Current(); err == nil {
		w.User = u.Username
	}
	x.Reply().JSON(http.StatusOK, w)
	return nil
}
