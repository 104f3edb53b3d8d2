// Package objects keeps sealed files of rows in an object store with the S3 API, such as Garage,
// SeaweedFS, MinIO or Amazon's: a [Store] is a rows.Blobs. An object's name is the prefix, then the
// file's name in the folder of rows. The store need not be trusted: it can lose files, and cannot
// forge any.
//
// No request lists a bucket: what is there is found with a few questions for single objects. What
// was used long ago is removed by the bucket's own rules (its life cycle), not by axle. A store
// that does not answer is left alone for a while, and asked again.
//
// A Store may be used from any goroutine. Close ends its connections.
package objects

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/axle-llm/axle/models/rows"
)

const (
	dialTime   = 2 * time.Second
	answerTime = 5 * time.Second
	askTime    = time.Second // for what is there
	wholeTime  = time.Minute // for an object
	piece      = 1 << 20     // for which room is made before it has come
)

// Place says where objects are.
type Place struct {
	Bucket   string
	Prefix   string // of the objects' names: empty, or with a slash at its end
	Endpoint string // HOST or HOST:PORT
	Region   string
	Plain    bool // HTTP, not HTTPS
}

// Parse reads "s3://BUCKET/PREFIX?endpoint=URL&region=NAME". The endpoint is a URL of http or
// https, or a host, which is https; without one it is Amazon's. Without a region it is us-east-1,
// which stores that have no regions take.
func Parse(text string) (p Place, err error) {
	wrong := func(what string) (Place, error) {
		return Place{}, fmt.Errorf("%q: %s; a place of objects is s3://BUCKET/PREFIX?endpoint=https://HOST:PORT&region=NAME",
			text[:min(len(text), 300)], what)
	}
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "s3" || u.Host == "" {
		return wrong("this is no URL of s3")
	}
	if u.User != nil {
		return wrong("keys do not belong here, where others can read them: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, " +
			"or AWS_SHARED_CREDENTIALS_FILE")
	}
	p = Place{Bucket: u.Host, Endpoint: "s3.amazonaws.com", Region: "us-east-1"}
	if p.Prefix = strings.Trim(u.Path, "/"); p.Prefix != "" {
		p.Prefix += "/"
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return wrong("what follows the question mark cannot be read")
	}
	for key, values := range query {
		v := values[0]
		switch {
		case len(values) > 1 || v == "":
			return wrong(key + " is there more than once, or empty")
		case key == "region":
			p.Region = v
		case key == "endpoint":
			if !strings.Contains(v, "://") {
				v = "https://" + v
			}
			e, err := url.Parse(v)
			if err != nil || e.Host == "" || e.Scheme != "http" && e.Scheme != "https" || e.Path != "" && e.Path != "/" || e.User != nil ||
				e.RawQuery != "" {
				return wrong("the endpoint is no address of a server")
			}
			p.Endpoint, p.Plain = e.Host, e.Scheme == "http"
		default:
			return wrong("nothing is called " + key)
		}
	}
	return p, nil
}

// String is the place without anything secret.
func (p Place) String() string { return "s3://" + p.Bucket + "/" + p.Prefix + " at " + p.Endpoint }

// Options of a [Store].
type Options struct {
	// Told, if not nil, is told why the store is left alone, and nil once it answers again.
	Told func(err error)
	Now  func() time.Time // nil: the system's clock

	keys *credentials.Credentials // a test's
}

// Store is a bucket, or a part of one.
type Store struct {
	place     Place
	core      minio.Core
	transport *http.Transport
	pause     rows.Pause
}

var _ rows.Blobs = (*Store)(nil)

// Open returns the store at a place, which it does not ask yet. Its keys are those of
// AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, else those of AWS_SHARED_CREDENTIALS_FILE or
// ~/.aws/credentials. Errors: there are no keys; a place that cannot be.
func Open(p Place, o Options) (*Store, error) {
	s := &Store{place: p, pause: rows.Pause{Told: o.Told, Now: o.Now}, transport: &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           (&net.Dialer{Timeout: dialTime}).DialContext,
		TLSHandshakeTimeout:   dialTime,
		ResponseHeaderTimeout: answerTime,
		ExpectContinueTimeout: time.Second,
		MaxIdleConnsPerHost:   4,
		IdleConnTimeout:       time.Minute,
		DisableCompression:    true,
	}}
	keys := o.keys
	if keys == nil {
		keys = credentials.NewChainCredentials([]credentials.Provider{&credentials.EnvAWS{}, &credentials.FileAWSCredentials{}})
	}
	if v, err := keys.GetWithContext(nil); err != nil || v.AccessKeyID == "" || v.SecretAccessKey == "" {
		return nil, fmt.Errorf("rows: %s: there are no keys for it: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or "+
			"AWS_SHARED_CREDENTIALS_FILE", p)
	}
	client, err := minio.New(p.Endpoint, &minio.Options{Creds: keys, Secure: !p.Plain, Transport: s.transport, Region: p.Region,
		MaxRetries: 1})
	if err != nil {
		return nil, fmt.Errorf("rows: %s: %w", p, err)
	}
	s.core = minio.Core{Client: client}
	return s, nil
}

// Close ends idle connections.
func (s *Store) Close() error {
	s.transport.CloseIdleConnections()
	return nil
}

// Name implements rows.Blobs.
func (s *Store) Name() string { return "s3" }

// errAway is what a store that is left alone gives.
var errAway = errors.New("rows: the object store did not answer, and is not asked for a while")

// within bounds a request, which is not made while the store is left alone.
func (s *Store) within(ctx context.Context, longest time.Duration) (context.Context, context.CancelFunc, error) {
	if !s.pause.Over() {
		return nil, nil, errAway
	}
	ctx, cancel := context.WithTimeout(ctx, longest)
	return ctx, cancel, nil
}

// outcome tells an object that is not there from a store that fails.
func (s *Store) outcome(ctx context.Context, err error) error {
	if err == nil {
		s.pause.Well()
		return nil
	}
	if r := minio.ToErrorResponse(err); r.Code == minio.NoSuchKey {
		s.pause.Well()
		return fs.ErrNotExist
	}
	return s.pause.Failed(ctx, fmt.Errorf("rows: %s: %w", s.place, err))
}

// Get implements rows.Blobs.
func (s *Store) Get(ctx context.Context, name string, most int64) ([]byte, error) {
	if !rows.IsName(name) {
		return nil, fs.ErrNotExist
	}
	within, cancel, err := s.within(ctx, wholeTime)
	if err != nil {
		return nil, err
	}
	defer cancel()
	body, info, _, err := s.core.GetObject(within, s.place.Bucket, s.place.Prefix+name, minio.GetObjectOptions{})
	if err = s.outcome(ctx, err); err != nil {
		return nil, err
	}
	defer body.Close()
	if info.Size < 0 || info.Size > most {
		return nil, fmt.Errorf("rows: %s: an object of %d bytes, %d may be", s.place, info.Size, most)
	}
	data := make([]byte, 0, min(info.Size, piece))
	for int64(len(data)) < info.Size { // room is made as it comes
		from := len(data)
		data = append(data, make([]byte, min(info.Size-int64(from), piece))...)
		if _, err := io.ReadFull(body, data[from:]); err != nil {
			return nil, s.outcome(ctx, err)
		}
	}
	return data, nil
}

// Put implements rows.Blobs.
func (s *Store) Put(ctx context.Context, name string, data []byte) error {
	if !rows.IsName(name) {
		return fmt.Errorf("rows: %q is no name of a file", name[:min(len(name), 120)])
	}
	within, cancel, err := s.within(ctx, wholeTime)
	if err != nil {
		return err
	}
	defer cancel()
	_, err = s.core.Client.PutObject(within, s.place.Bucket, s.place.Prefix+name, bytes.NewReader(data), int64(len(data)),
		minio.PutObjectOptions{ContentType: "application/octet-stream", DisableMultipart: true})
	return s.outcome(ctx, err)
}

// Has implements rows.Blobs.
func (s *Store) Has(ctx context.Context, names []string) (int, error) {
	within, cancel, err := s.within(ctx, askTime)
	if err != nil {
		return 0, err
	}
	defer cancel()
	return rows.Gallop(len(names), func(i int) (bool, error) {
		if !rows.IsName(names[i]) {
			return false, nil
		}
		_, err := s.core.StatObject(within, s.place.Bucket, s.place.Prefix+names[i], minio.StatObjectOptions{})
		switch err = s.outcome(ctx, err); {
		case errors.Is(err, fs.ErrNotExist):
			return false, nil
		case err != nil:
			return false, err
		}
		return true, nil
	})
}
