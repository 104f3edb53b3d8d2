package hub_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/axle-llm/axle/models/hub"
)

// T14: neither the token nor a user and password in HF_ENDPOINT is printed, by whatever verb, or
// told in an error.
func TestSecrets(t *testing.T) {
	//proves:T14
	c := &hub.Client{Token: "canary-token"}
	b, _ := json.Marshal(map[string]any{"t": c.Token})
	if out := fmt.Sprintf("%v %+v %#v %s %q %x %d %c %s %v %+v %#v", c.Token, c.Token, c.Token, c.Token, c.Token, c.Token, c.Token, c.Token,
		b, c, c, struct{ T hub.Secret }{c.Token}); strings.Contains(out, "canary") || strings.Contains(out, "63616e") {
		t.Errorf("the token printed itself: %s", out)
	}
	for _, endpoint := range []string{
		"https://user:canary@hub.example", "https://canary:pw@hub.example", "https://user:canary@ho st", "ftp://user:canary@hub.example",
		"https://user:canary@hub.example:port", "user:canary@hub.example",
		"https://user:canary@127.0.0.1:1", "https://user:can%ary@hub.example", "//user:canary@hub.example",
	} {
		for _, mirror := range []bool{false, true} {
			c := &hub.Client{Endpoints: []string{endpoint}, Retries: 1, Transport: refusing{}}
			if mirror {
				c.Endpoints = []string{"https://hub.example", endpoint}
			}
			_, err := c.Snapshot(t.Context(), "o/m", "main")
			if err == nil || strings.Contains(err.Error(), "can") {
				t.Errorf("%s: %v", endpoint, err)
			}
			for e := err; e != nil; {
				if strings.Contains(e.Error(), "canary") {
					t.Errorf("%s, wrapped: %v", endpoint, e)
				}
				u, ok := e.(interface{ Unwrap() error }) //nolint:errorlint // each link of the chain is looked at
				if !ok {
					break
				}
				e = u.Unwrap()
			}
		}
	}
}

// refusing is a network without any answer; like the real one it tells the address.
type refusing struct{}

func (refusing) RoundTrip(r *http.Request) (*http.Response, error) {
	return nil, fmt.Errorf("no route to %s", r.URL.Host)
}
