package server_test

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/axle-llm/axle/server"
	"github.com/axle-llm/axle/server/scripted"
)

// A certificate that the server made is kept while it is valid, is for the names it was made for
// and no others, and there is a new one 30 days before its end and after it.
func TestSelfSigned(t *testing.T) {
	//proves:T6
	synctest.Test(t, func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "tls")
		made := func() *server.Certificate {
			c, err := server.SelfSigned(dir, []string{"localhost", "box.lan", "192.168.1.7"})
			if err != nil {
				t.Fatal(err)
			}
			return c
		}
		first := made()
		roots := x509.NewCertPool()
		roots.AddCert(first.Leaf())
		for name, ok := range map[string]bool{"localhost": true, "box.lan": true, "192.168.1.7": true, "other.lan": false} {
			_, err := first.Leaf().Verify(x509.VerifyOptions{DNSName: name, Roots: roots, CurrentTime: time.Now()})
			if (err == nil) != ok {
				t.Errorf("%s: %v", name, err)
			}
		}
		if st, err := os.Stat(filepath.Join(dir, "key.pem")); err != nil || st.Mode().Perm() != 0o600 {
			t.Errorf("the key's file: %v %v", st, err)
		}
		for _, tt := range []struct {
			days int
			same bool
		}{{0, true}, {700, true}, {100, false}, {900, false}} {
			time.Sleep(time.Duration(tt.days) * 24 * time.Hour)
			next := made()
			if (next.Fingerprint() == first.Fingerprint()) != tt.same {
				t.Errorf("after %d days more: the same certificate: %v", tt.days, !tt.same)
			}
			first = next
		}
	})
}

// What is wrong with the files is told by name, and leaves the certificate as it is.
func TestCertificateFiles(t *testing.T) {
	//proves:T6
	dir := t.TempDir()
	c, err := server.SelfSigned(dir, []string{"localhost"})
	if err != nil {
		t.Fatal(err)
	}
	other := t.TempDir()
	if _, err := server.SelfSigned(other, []string{"localhost"}); err != nil {
		t.Fatal(err)
	}
	cert, key := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	had, _ := os.ReadFile(key)
	for _, tt := range []struct {
		what string
		do   func() error
		want string
	}{
		{"a key that everyone can read", func() error { return os.Chmod(key, 0o644) }, "chmod 600 it"},
		{"a key of another certificate", func() error {
			b, err := os.ReadFile(filepath.Join(other, "key.pem"))
			return errors.Join(err, os.WriteFile(key, b, 0o600), os.Chmod(key, 0o600))
		}, "private key does not match"},
		{"no key", func() error { return os.Remove(key) }, "no such file"},
		{"nonsense", func() error {
			return errors.Join(os.WriteFile(key, had, 0o600), os.WriteFile(cert, []byte("x"), 0o600))
		}, cert},
	} {
		before := c.Fingerprint()
		if err := tt.do(); err != nil {
			t.Fatal(err)
		}
		if err := c.Reload(); err == nil || !strings.Contains(err.Error(), tt.want) || c.Fingerprint() != before {
			t.Errorf("%s: %v", tt.what, err)
		}
	}
	if _, err := server.SelfSigned(dir, []string{"localhost"}); err == nil || !strings.Contains(err.Error(), "remove both files") {
		t.Errorf("a file that is no certificate is written over: %v", err)
	}
}

// A server with a certificate speaks TLS 1.2 and later, HTTP/1.1 in it, and nothing else; a
// certificate that is read again is shown from the next connection on.
func TestTLS(t *testing.T) {
	//proves:T6
	dir, other := t.TempDir(), t.TempDir()
	c, err := server.SelfSigned(dir, []string{"127.0.0.1"})
	if err != nil {
		t.Fatal(err)
	}
	r := newRig(t, func(o *server.Options, _ *scripted.Config) { o.TLS = c })
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := r.serve(ln)
	ask := func(conf *tls.Config) (*http.Response, error) {
		tr := &http.Transport{TLSClientConfig: conf, ForceAttemptHTTP2: true}
		defer tr.CloseIdleConnections()
		resp, err := (&http.Client{Transport: tr}).Get("https://" + addr + "/api/version")
		if err == nil {
			_ = resp.Body.Close()
		}
		return resp, err
	}
	trust := func(c *server.Certificate) *tls.Config {
		roots := x509.NewCertPool()
		roots.AddCert(c.Leaf())
		return &tls.Config{RootCAs: roots}
	}
	old := trust(c)
	if resp, err := ask(old); err != nil || resp.StatusCode != 200 || resp.ProtoMajor != 1 {
		t.Fatalf("%+v, %v", resp, err)
	}
	if _, err := ask(&tls.Config{}); err == nil {
		t.Error("a client that does not trust it is answered")
	}
	if _, err := ask(&tls.Config{RootCAs: old.RootCAs, MaxVersion: tls.VersionTLS11, MinVersion: tls.VersionTLS10}); err == nil {
		t.Error("TLS 1.1 is spoken")
	}
	resp, err := http.Get("http://" + addr + "/api/version")
	if err != nil || resp.StatusCode != 400 {
		t.Errorf("without TLS: %+v, %v", resp, err)
	}
	_ = resp.Body.Close()
	if _, err := server.SelfSigned(other, []string{"127.0.0.1"}); err != nil {
		t.Fatal(err)
	}
	for _, f := range []string{"cert.pem", "key.pem"} {
		b, err := os.ReadFile(filepath.Join(other, f))
		if err := errors.Join(err, os.WriteFile(filepath.Join(dir, f), b, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.Reload(); err != nil {
		t.Fatal(err)
	}
	if _, err := ask(old); err == nil {
		t.Error("the old certificate is shown")
	}
	if _, err := ask(trust(c)); err != nil {
		t.Error(err)
	}
}
