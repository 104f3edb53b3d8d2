package main

import (
	"slices"
	"testing"
)

// Whatever a server keeps to itself is named to who runs tools, so that no tool can open it.
func TestToolsOpenNothing(t *testing.T) {
	//proves:T22
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", "/etc/axle/aws")
	s := settings{keysFile: "/etc/axle/keys", tlsKey: "/etc/axle/tls.key", chats: chatSettings{dir: "/srv/chats"},
		documents: documentSettings{folder: "/srv/documents"}, runsOn: machineOptions{rowsSecret: "/etc/axle/rows-secret",
			rows: "/srv/rows", objects: "s3://axle/rows"}}
	want := []string{"/etc/axle/keys", "/etc/axle/tls.key", "/etc/axle/rows-secret", "/srv/rows", "/srv/chats", "/models",
		"/srv/documents", "/models/tls", "/etc/axle/aws"}
	if got := s.own("/models"); !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	s = settings{documents: documentSettings{folder: noDocuments}}
	if got := s.own(""); len(got) > 0 {
		t.Errorf("%v, want none", got)
	}
}
