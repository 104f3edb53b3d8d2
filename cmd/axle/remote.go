//go:build !scripted

package main

import (
	"crypto/x509"
	"errors"
	"fmt"
	"io"

	"go.uber.org/zap"

	"github.com/axle-llm/axle/internal/regular"
	"github.com/axle-llm/axle/models/rows"
	"github.com/axle-llm/axle/models/rows/objects"
	"github.com/axle-llm/axle/server/peers"
)

const mostCA = 1 << 20 // bytes of a file of authorities

// remote is where rows are outside this machine, and what gives this machine's to others.
type remote struct {
	rows.Blobs // nil: nowhere
	secret     []byte
	mirror     bool // rows are sent there as they are saved, not only when the server ends
}

// openRemote opens what --peers or --rows-objects names. It asks none of them yet.
func (o machineOptions) openRemote() (r remote, err error) {
	flag := "--peers"
	switch {
	case len(o.peers) == 0 && o.objects == "":
		if o.peersCA != "" {
			return r, usageError("--peers-ca is for --peers, which says where they are")
		}
		return r, nil
	case len(o.peers) > 0 && o.objects != "":
		return r, usageError("--peers and --rows-objects cannot be had together: rows are fetched from one of the two")
	case o.objects != "":
		flag = "--rows-objects"
	}
	if o.rowsSecret == "" {
		return r, usageError("%s needs --rows-secret FILE, the same secret on all servers: without it none finds another's rows", flag)
	}
	if o.cacheDisk == 0 {
		return r, usageError("%s needs --cache-disk SIZE: what is exchanged are the rows that are kept on disk", flag)
	}
	if r.secret, err = rows.ReadSecret(o.rowsSecret); err != nil {
		return r, fmt.Errorf("--rows-secret: %w", err)
	}
	if o.objects != "" {
		r.mirror = true
		place, err := objects.Parse(o.objects)
		if err != nil {
			return r, usageError("--rows-objects: %w", err)
		}
		r.Blobs, err = objects.Open(place, objects.Options{Told: func(err error) {
			o.toldOf("the object store of rows", place.String(), err)
		}})
		if err != nil {
			return r, fmt.Errorf("--rows-objects: %w", err)
		}
		return r, nil
	}
	po := peers.Options{Secret: r.secret, Told: func(peer string, err error) { o.toldOf("a peer", peer, err) }}
	if o.peersCA != "" {
		pem, err := regular.ReadPath(o.peersCA, mostCA)
		if err != nil {
			return r, fmt.Errorf("--peers-ca: %w", err)
		}
		if po.CA = x509.NewCertPool(); !po.CA.AppendCertsFromPEM(pem) {
			return r, fmt.Errorf("--peers-ca: %s has no certificate in the form of PEM", o.peersCA)
		}
	}
	p, err := peers.New(o.peers, po)
	if err != nil {
		return r, usageError("--peers: %w", err)
	}
	r.Blobs = p
	return r, nil
}

// toldOf says in the log that a place of rows is left alone, or answers again.
func (o machineOptions) toldOf(what, where string, err error) {
	if err == nil {
		o.log.Info(what+" answers again", zap.String("at", where))
		return
	}
	o.log.Warn(what+" is left alone for a while: prompts are evaluated here", zap.String("at", where), zap.Error(err))
}

// server gives the folder's rows to peers; nil: to none.
func (r remote) server(kept *rows.Disk, o machineOptions) *peers.Server {
	if kept == nil || len(o.peers) == 0 {
		return nil
	}
	return peers.NewServer(kept, peers.ServerOptions{Secret: r.secret, Events: o.events.Port})
}

// peers are the other servers; nil: there are none.
func (r remote) peers() *peers.Peers {
	p, _ := r.Blobs.(*peers.Peers)
	return p
}

// close ends connections.
func (r remote) close(err error) error {
	if c, ok := r.Blobs.(io.Closer); ok {
		return errors.Join(err, c.Close())
	}
	return err
}
