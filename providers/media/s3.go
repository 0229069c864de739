package media

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"farebox/config"
	"farebox/config/asyncjob"
	"farebox/providers/credential"
)

const (
	// partSize is how much of a body is in memory at once, and again while it is sent:
	// the smallest part that servers take.
	partSize = 5 << 20
	// s3Tries bounds the tries of a request that fails in a temporary way.
	s3Tries = 3
	// forgotten is the age of an upload that will not be finished.
	forgotten = 24 * time.Hour
	// redirectFor is how long a redirect of a client to the bucket is good.
	redirectFor = 5 * time.Minute
)

// bucket is a Store in a bucket of any server that speaks S3.
type bucket struct {
	client *minio.Client
	name   string // of the bucket
	prefix string
	at     string // for operators
	key    string // of the config
	parts  sync.Pool
}

func openBucket(key string, c *config.S3) (*bucket, error) {
	u, err := url.Parse(c.Endpoint)
	if err != nil {
		return nil, err
	}
	style := minio.BucketLookupPath
	if c.PathStyle != nil && !*c.PathStyle {
		style = minio.BucketLookupDNS
	}
	// With a region nothing is asked about the bucket's; redirects are never followed.
	client, err := minio.New(u.Host, &minio.Options{
		Creds: credentials.New(newKeys(c)), Secure: u.Scheme == "https", Region: c.Region, BucketLookup: style,
		MaxRetries: s3Tries, Transport: s3Transport(c.Timeout),
	})
	if err != nil {
		return nil, err
	}
	client.SetAppInfo("farebox", "1")
	b := &bucket{key: key, client: client, name: c.Bucket, prefix: c.Prefix, at: "the bucket " + c.Bucket + " at " + u.Host}
	b.parts.New = func() any { p := make([]byte, partSize); return &p }
	if b.prefix != "" && !strings.HasSuffix(b.prefix, "/") {
		b.prefix += "/"
	}
	return b, nil
}

// s3Transport waits so long for a silent server, in either direction, and without limit for
// one that goes on.
func s3Transport(stall time.Duration) *http.Transport {
	dialer := &net.Dialer{Timeout: min(stall, 10*time.Second), KeepAlive: 30 * time.Second}
	return &http.Transport{
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			c, err := dialer.DialContext(ctx, network, address)
			if err != nil {
				return nil, err
			}
			return &watched{Conn: c, stall: stall}, nil
		},
		TLSHandshakeTimeout: 10 * time.Second, ResponseHeaderTimeout: stall, ExpectContinueTimeout: 2 * time.Second,
		MaxIdleConnsPerHost: 16, IdleConnTimeout: min(stall, 30*time.Second), DisableCompression: true,
	}
}

// watched is a connection that fails once nothing has moved on it for a while.
type watched struct {
	net.Conn
	stall time.Duration
}

func (c *watched) Read(p []byte) (int, error) {
	_ = c.SetReadDeadline(time.Now().Add(c.stall))
	return c.Conn.Read(p)
}

// Write also restarts the time for the answer, which is waited for from the first byte on.
func (c *watched) Write(p []byte) (int, error) {
	_ = c.SetDeadline(time.Now().Add(c.stall))
	return c.Conn.Write(p)
}

// keys are the credentials of a config: written there, or in a file that is read again
// when it changes.
type keys struct {
	c *config.S3

	mu   sync.Mutex
	read os.FileInfo // as it was read
}

func newKeys(c *config.S3) *keys { return &keys{c: c} }

// Retrieve is credentials.Provider.
func (k *keys) Retrieve() (credentials.Value, error) { return k.RetrieveWithCredContext(nil) }

// RetrieveWithCredContext is credentials.Provider.
func (k *keys) RetrieveWithCredContext(*credentials.CredContext) (credentials.Value, error) {
	access, secret, session := k.c.AccessKey, k.c.SecretKey, k.c.SessionToken
	if k.c.CredentialsFile != "" {
		k.mu.Lock()
		defer k.mu.Unlock()
		info, err := os.Stat(k.c.CredentialsFile)
		if err == nil {
			access, secret, session, err = credential.Profile(k.c.CredentialsFile, k.c.Profile)
		}
		if err != nil {
			return credentials.Value{}, err
		}
		k.read = info
	}
	return credentials.Value{AccessKeyID: access.Reveal(), SecretAccessKey: secret.Reveal(),
		SessionToken: session.Reveal(), SignerType: credentials.SignatureV4}, nil
}

// IsExpired is credentials.Provider.
func (k *keys) IsExpired() bool {
	if k.c.CredentialsFile == "" {
		return false
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	info, err := os.Stat(k.c.CredentialsFile)
	return k.read == nil || err == nil &&
		(!os.SameFile(info, k.read) || info.Size() != k.read.Size() || !info.ModTime().Equal(k.read.ModTime()))
}

// Name is Store.
func (b *bucket) Name() string { return b.at }

// Put is Store. A body no larger than a part is sent at once; a larger one is an upload in
// parts, which appears when its last one is there.
func (b *bucket) Put(ctx context.Context, id string, body io.Reader, contentType string, most int64) (int64, error) {
	if err := checkID(id); err != nil {
		return 0, err
	}
	in, err := fit(body, contentType, most)
	if err != nil {
		return 0, err
	}
	whole := &whole{r: in}
	buf := b.parts.Get().(*[]byte)
	defer b.parts.Put(buf)
	n, err := io.ReadFull(whole, *buf)
	// Parts are proved by their MD5: not every server knows signatures of chunks.
	o := minio.PutObjectOptions{ContentType: MediaType(contentType), PartSize: partSize, SendContentMd5: true,
		DisableContentSha256: true}
	switch {
	case whole.err != nil && !errors.Is(whole.err, io.EOF):
		return 0, whole.err
	case err != nil: // that was all of it
		_, err = b.client.PutObject(ctx, b.name, b.prefix+id, bytes.NewReader((*buf)[:n]), int64(n), o)
		if err != nil {
			return 0, b.error("kept", err)
		}
		return int64(n), nil
	}
	info, err := b.client.PutObject(ctx, b.name, b.prefix+id, io.MultiReader(bytes.NewReader(*buf), whole), -1, o)
	switch {
	case whole.err != nil && !errors.Is(whole.err, io.EOF):
		return 0, whole.err
	case err != nil:
		return 0, b.error("kept", err)
	}
	return info.Size, nil
}

// whole records the end of a body, and gives no io.ErrUnexpectedEOF: a body that was cut
// off would be stored as if it were complete.
type whole struct {
	r   io.Reader
	err error
}

func (w *whole) Read(p []byte) (int, error) {
	n, err := w.r.Read(p)
	if err != nil {
		if errors.Is(err, io.ErrUnexpectedEOF) {
			err = fmt.Errorf("it was cut off: %s", err.Error())
		}
		w.err = err
	}
	return n, err
}

// Open is Store.
func (b *bucket) Open(ctx context.Context, id string, from, length int64) (io.ReadCloser, error) {
	if err := checkID(id); err != nil {
		return nil, err
	}
	if length == 0 {
		return io.NopCloser(bytes.NewReader(nil)), nil
	}
	o := minio.GetObjectOptions{}
	var err error
	if length > 0 {
		err = o.SetRange(from, from+length-1)
	} else if from > 0 {
		err = o.SetRange(from, 0) // to the end
	}
	if err != nil {
		return nil, err
	}
	core := minio.Core{Client: b.client}
	body, _, _, err := core.GetObject(ctx, b.name, b.prefix+id, o)
	if err != nil {
		return nil, b.error("read", err)
	}
	return body, nil
}

// Size is Store.
func (b *bucket) Size(ctx context.Context, id string) (int64, error) {
	if err := checkID(id); err != nil {
		return 0, err
	}
	info, err := b.client.StatObject(ctx, b.name, b.prefix+id, minio.StatObjectOptions{})
	if err != nil {
		return 0, b.error("read", err)
	}
	return info.Size, nil
}

// Delete is Store.
func (b *bucket) Delete(ctx context.Context, id string) error {
	if err := checkID(id); err != nil {
		return err
	}
	err := b.client.RemoveObject(ctx, b.name, b.prefix+id, minio.RemoveObjectOptions{})
	if err = b.error("deleted", err); errors.Is(err, ErrNone) {
		return nil
	}
	return err
}

// List is Store. It also ends uploads that will not be finished.
func (b *bucket) List(ctx context.Context, each func(File) bool) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	for o := range b.client.ListObjects(ctx, b.name, minio.ListObjectsOptions{Prefix: b.prefix, Recursive: true}) {
		if o.Err != nil {
			return b.error("listed", o.Err)
		}
		id := strings.TrimPrefix(o.Key, b.prefix)
		if checkID(id) == nil && !each(File{ID: id, Size: o.Size, Changed: o.LastModified}) {
			return nil
		}
	}
	b.endUploads(ctx, time.Now().Add(-forgotten))
	return nil
}

// endUploads ends those that were begun before a time. Not every server lists them, and
// those that remain are ended the next time.
func (b *bucket) endUploads(ctx context.Context, before time.Time) {
	core := minio.Core{Client: b.client}
	// Ids have no slash; and Swift lists nothing without one.
	for u := range b.client.ListIncompleteUploads(ctx, b.name, b.prefix, false) {
		if u.Err != nil {
			return
		}
		if id := strings.TrimPrefix(u.Key, b.prefix); checkID(id) == nil && u.Initiated.Before(before) {
			// Only this one: there may be another of the same file that goes on.
			_ = core.AbortMultipartUpload(ctx, b.name, u.Key, u.UploadID)
		}
	}
}

// Address is an address of a file in the bucket itself, good for some minutes, at which
// it has a type and a name.
func (b *bucket) Address(ctx context.Context, id, contentType, disposition string) (string, error) {
	if err := checkID(id); err != nil {
		return "", err
	}
	u, err := b.client.PresignedGetObject(ctx, b.name, b.prefix+id, redirectFor, url.Values{
		"response-content-type": {contentType}, "response-content-disposition": {disposition},
		"response-cache-control": {"private"},
	})
	if err != nil {
		return "", b.error("signed", err)
	}
	return u.String(), nil
}

// allowed are the rights that our keys need for each operation, in the words of S3.
var allowed = map[string]string{
	"kept": "s3:PutObject and s3:AbortMultipartUpload", "read": "s3:GetObject", "deleted": "s3:DeleteObject",
	"listed": "s3:ListBucket on the bucket", "signed": "s3:GetObject",
}

// error names the failed operation, without the server's text beside its code: that may
// quote the request, which has our key.
func (b *bucket) error(what string, err error) error {
	if err == nil {
		return nil
	}
	var said minio.ErrorResponse
	if !errors.As(err, &said) {
		return fmt.Errorf("cannot be %s in %s: %w", what, b.at, err)
	}
	switch {
	case said.Code == minio.NoSuchKey || said.Code == "NotFound" && said.StatusCode == http.StatusNotFound:
		return ErrNone
	case said.Code == "XMinioStorageFull" || said.Code == "QuotaExceeded" ||
		said.StatusCode == http.StatusInsufficientStorage:
		return fmt.Errorf("%w: %s is full (%s)", asyncjob.ErrFull, b.at, said.Code)
	}
	hint := "look at the log of its server"
	switch said.Code {
	case minio.NoSuchBucket:
		hint = "make the bucket"
	case minio.AccessDenied:
		hint = "its keys must be allowed " + allowed[what]
	case "InvalidAccessKeyId", "SignatureDoesNotMatch", "InvalidToken", "ExpiredToken":
		hint = "check the keys in " + b.key
	case minio.AuthorizationHeaderMalformed, minio.InvalidRegion, "PermanentRedirect":
		hint = "check " + b.key + ".region and endpoint"
	}
	return fmt.Errorf("cannot be %s in %s: its server says %s (%d); %s", what, b.at, said.Code, said.StatusCode, hint)
}
