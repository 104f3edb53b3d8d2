package server

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"time"

	"github.com/axle-llm/axle/internal/regular"
)

// Certificate is what a server shows to clients that speak TLS: a file of certificates, the
// server's own first, and one of its private key. It may be used from any goroutine.
type Certificate struct {
	cert, key string
	now       atomic.Pointer[tls.Certificate]
}

// LoadCertificate reads the files. Errors name the file; a private key that everyone on the machine
// can read is one.
func LoadCertificate(cert, key string) (*Certificate, error) {
	c := &Certificate{cert: cert, key: key}
	if err := c.Reload(); err != nil {
		return nil, err
	}
	return c, nil
}

// Reload reads the files again. Where that fails the certificate stays as it is. Connections that
// there are keep theirs.
func (c *Certificate) Reload() error {
	st, err := os.Stat(c.key)
	if err != nil {
		return fmt.Errorf("server: tls: %w", err)
	}
	if m := st.Mode().Perm(); m&0o007 != 0 {
		return fmt.Errorf("server: tls: everyone can read the private key %s (mode %#o): chmod 600 it", c.key, m)
	}
	cert, err := tls.LoadX509KeyPair(c.cert, c.key)
	if err != nil {
		return fmt.Errorf("server: tls: the certificate %s and the private key %s: %w", c.cert, c.key, err)
	}
	if now := time.Now(); now.After(cert.Leaf.NotAfter) {
		return fmt.Errorf("server: tls: the certificate %s was valid until %s", c.cert, cert.Leaf.NotAfter.Format(time.RFC3339))
	}
	c.now.Store(&cert)
	return nil
}

// Leaf is the server's own certificate.
func (c *Certificate) Leaf() *x509.Certificate { return c.now.Load().Leaf }

// Fingerprint is the SHA-256 of the server's own certificate, as browsers show it.
func (c *Certificate) Fingerprint() string { return fmt.Sprintf("%X", sha256.Sum256(c.Leaf().Raw)) }

// config is TLS as the server speaks it. HTTP/2 is not spoken: the limits of connections count on
// one request at a time in each.
func (c *Certificate) config() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"},
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return c.now.Load(), nil }}
}

// How long a certificate of ours is valid (no browser takes more), and how long before its end
// there is a new one.
const (
	ownValid = 825 * 24 * time.Hour
	ownLast  = 30 * 24 * time.Hour
)

// SelfSigned is a certificate that the server has made for itself, in the folder dir, for those
// names and addresses. It stays as it was made, so that clients which were told to trust it go on,
// until 30 days before its end; then, or where it is not there, a new one is made.
func SelfSigned(dir string, names []string) (*Certificate, error) {
	cert, key := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	c, err := LoadCertificate(cert, key)
	if err == nil && time.Until(c.Leaf().NotAfter) > ownLast {
		return c, nil
	}
	if _, serr := os.Stat(cert); err != nil && serr == nil && !errors.Is(err, fs.ErrNotExist) && !expired(cert) {
		return nil, fmt.Errorf("%w; remove both files to have new ones made", err)
	}
	if err := writeOwn(dir, cert, key, names); err != nil {
		return nil, fmt.Errorf("server: tls: a certificate cannot be made: %w", err)
	}
	return LoadCertificate(cert, key)
}

// expired: the file's certificate is past its end.
func expired(cert string) bool {
	b, err := os.ReadFile(cert)
	block, _ := pem.Decode(b)
	if err != nil || block == nil {
		return false
	}
	c, err := x509.ParseCertificate(block.Bytes)
	return err == nil && time.Now().After(c.NotAfter)
}

func writeOwn(dir, cert, key string, names []string) error {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return err
	}
	now := time.Now()
	// It is its own authority, so that a client can be told to trust it, and of nothing else: its
	// own names are all that it may vouch for.
	t := &x509.Certificate{SerialNumber: serial, Subject: pkix.Name{CommonName: "axle"}, NotBefore: now.Add(-time.Hour),
		NotAfter: now.Add(ownValid), KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, BasicConstraintsValid: true, IsCA: true, MaxPathLenZero: true}
	for _, n := range names {
		if ip := net.ParseIP(n); ip != nil {
			t.IPAddresses = append(t.IPAddresses, ip)
		} else if n != "" {
			t.DNSNames = append(t.DNSNames, n)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, t, t, private.Public(), private)
	if err != nil {
		return err
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	return errors.Join(regular.Replace(key, 0o600, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret})),
		regular.Replace(cert, 0o644, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})))
}

// OwnNames are the names and addresses by which clients reach a listener at addr: for a
// certificate.
func OwnNames(addr net.Addr, hosts []string) []string {
	names := []string{"localhost"}
	add := func(more ...string) {
		for _, n := range more {
			if !slices.Contains(names, n) {
				names = append(names, n)
			}
		}
	}
	if h, err := os.Hostname(); err == nil {
		add(h, h+".local")
	}
	add(hosts...)
	add("127.0.0.1", "::1")
	if tcp, ok := addr.(*net.TCPAddr); ok && !tcp.IP.IsUnspecified() {
		add(tcp.IP.String())
		return names
	}
	if all, err := net.InterfaceAddrs(); err == nil {
		for _, a := range all {
			if n, ok := a.(*net.IPNet); ok && !n.IP.IsLinkLocalUnicast() {
				add(n.IP.String())
			}
		}
	}
	return names
}
