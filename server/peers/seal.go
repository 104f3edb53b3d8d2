package peers

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/axle-llm/axle/internal/ranked"
)

const (
	sealHeader = "Axle-Rows"
	mostSkew   = 2 * time.Minute
	nonceSize  = 16
	mostNonces = 1 << 16 // in half of the time that they are remembered
)

// Why a request is refused.
var (
	errUnsealed = errors.New("this is for servers with the same --rows-secret: the request has no seal of that secret")
	errReplayed = errors.New("this request was here before")
	errMany     = errors.New("too many requests of peers: try again later")
)

// sealer seals requests.
type sealer struct{ key []byte }

// newSealer derives the key of requests, so that what goes over the network is no use of the key
// of the files.
func newSealer(secret []byte) sealer {
	h := hmac.New(sha256.New, secret)
	_, _ = h.Write([]byte("axle: requests of peers for rows, 1"))
	return sealer{h.Sum(nil)}
}

func (s sealer) sum(r *http.Request, host, at, nonce string) []byte {
	h := hmac.New(sha256.New, s.key)
	for _, part := range []string{r.Method, host, r.URL.Path, strconv.FormatInt(max(r.ContentLength, 0), 10), at, nonce} {
		_, _ = fmt.Fprintf(h, "%d:%s", len(part), part)
	}
	return h.Sum(nil)
}

// seal seals a request that is about to be sent.
func (s sealer) seal(r *http.Request, now time.Time) {
	nonce := make([]byte, nonceSize)
	_, _ = rand.Read(nonce) // never fails
	at, n := strconv.FormatInt(now.Unix(), 10), hex.EncodeToString(nonce)
	r.Header.Set(sealHeader, strings.Join([]string{at, n, hex.EncodeToString(s.sum(r, r.URL.Host, at, n))}, " "))
}

// gate lets requests in that are sealed, each once.
type gate struct {
	sealer
	now func() time.Time

	mu       ranked.Mutex[ranked.Peers]
	nonces   map[[nonceSize]byte]struct{} // of the running half
	before   map[[nonceSize]byte]struct{} // of the half before
	turnover time.Time
}

func newGate(secret []byte, now func() time.Time) *gate {
	return &gate{sealer: newSealer(secret), now: now}
}

// admit says why a request is not let in. Numbers of requests whose seal is wrong are not kept.
func (g *gate) admit(r *http.Request) error {
	words := strings.Split(r.Header.Get(sealHeader), " ")
	if len(words) != 3 || len(words[0]) > 20 {
		return errUnsealed
	}
	at, err := strconv.ParseInt(words[0], 10, 64)
	nonce, nerr := hex.DecodeString(words[1])
	sum, serr := hex.DecodeString(words[2])
	if err != nil || nerr != nil || serr != nil || len(nonce) != nonceSize {
		return errUnsealed
	}
	//rule:G28 TestSealed !hmac.Equal(sum, g.sum(r, r.Host, words[0], words[1])) => false
	if !hmac.Equal(sum, g.sum(r, r.Host, words[0], words[1])) {
		return errUnsealed
	}
	now := g.now()
	if off := now.Sub(time.Unix(at, 0)); off > mostSkew || off < -mostSkew {
		return fmt.Errorf("the clocks of the two servers differ by %v, %v is allowed: let both follow a time server",
			off.Abs().Round(time.Second), mostSkew)
	}
	return g.once(now, [nonceSize]byte(nonce))
}

// once lets a number in that was not there as long as its time may count.
func (g *gate) once(now time.Time, nonce [nonceSize]byte) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if now.After(g.turnover) || g.nonces == nil {
		g.before, g.nonces, g.turnover = g.nonces, map[[nonceSize]byte]struct{}{}, now.Add(2*mostSkew)
	}
	_, now1 := g.nonces[nonce]
	_, then := g.before[nonce]
	switch {
	//rule:G28 TestReplayed now1 || then => false
	case now1 || then:
		return errReplayed
	case len(g.nonces) >= mostNonces:
		return errMany
	}
	g.nonces[nonce] = struct{}{}
	return nil
}
