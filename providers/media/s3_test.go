package media

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"

	"farebox/bench/servers"
	"farebox/config"
)

func bucketAt(t *testing.T, s *servers.S3, change func(*config.S3)) *bucket {
	t.Helper()
	path := true
	c := &config.S3{Endpoint: s.URL, Bucket: s.Bucket, Region: s.Region, AccessKey: config.Secret(s.AccessKey),
		SecretKey: config.Secret(s.SecretKey), Prefix: "some/where", PathStyle: &path, Timeout: 30 * time.Second}
	if change != nil {
		change(c)
	}
	b, err := openBucket("media.s3", c)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestABucketKeepsFiles(t *testing.T) {
	t.Parallel()
	s := servers.StartS3(t)
	b := bucketAt(t, s, nil)
	conforms(t, b)
	ctx := t.Context()

	t.Run("a file larger than a part goes in parts", func(t *testing.T) {
		want := wave(2*partSize + 12345)
		n, err := b.Put(ctx, someID, bytes.NewReader(want), "audio/wav", 1<<30)
		if err != nil || n != int64(len(want)) {
			t.Fatalf("Put gives %d, %v", n, err)
		}
		if got := read(t, b, someID, 0, -1); !bytes.Equal(got, want) {
			t.Errorf("%d bytes come back that are not the same", len(got))
		}
		if got := read(t, b, someID, partSize-5, 10); !bytes.Equal(got, want[partSize-5:partSize+5]) {
			t.Error("a piece on both sides of an edge is another one")
		}
		if err := b.Delete(ctx, someID); err != nil {
			t.Error(err)
		}
	})

	// The library takes io.ErrUnexpectedEOF for the end of a body of unknown length.
	t.Run("a broken upload is not kept", func(t *testing.T) {
		for _, size := range []int{1000, partSize, 2*partSize + 7} {
			body := io.MultiReader(bytes.NewReader(wave(size)), failing{io.ErrUnexpectedEOF})
			if n, err := b.Put(ctx, someID, body, "audio/wav", 1<<30); err == nil {
				t.Errorf("cut off after %d: %d bytes are kept", size, n)
			}
			if _, err := b.Size(ctx, someID); !errors.Is(err, ErrNone) {
				t.Errorf("cut off after %d: Size says %v", size, err)
			}
		}
	})

	t.Run("abandoned uploads are ended", func(t *testing.T) {
		core := minio.Core{Client: b.client}
		uploads := func() (ids []string) {
			for u := range b.client.ListIncompleteUploads(ctx, b.name, b.prefix, false) {
				if u.Err != nil {
					t.Fatal(u.Err)
				}
				ids = append(ids, u.UploadID)
			}
			return ids
		}
		begin := func() string {
			id, err := core.NewMultipartUpload(ctx, b.name, b.prefix+someID, minio.PutObjectOptions{})
			if err == nil {
				_, err = core.PutObjectPart(ctx, b.name, b.prefix+someID, id, 1, bytes.NewReader(wave(partSize)), partSize,
					minio.PutObjectPartOptions{DisableContentSha256: true})
			}
			if err != nil {
				t.Fatal(err)
			}
			return id
		}
		// An upload cut off above has been ended by itself; a busy server lists it for a moment.
		for until := time.Now().Add(10 * time.Second); len(uploads()) > 0 && time.Now().Before(until); {
			time.Sleep(100 * time.Millisecond)
		}
		if left := uploads(); len(left) > 0 {
			t.Fatalf("uploads that were cut off are left: %v", left)
		}
		begin()
		if err := b.List(ctx, func(File) bool { return true }); err != nil || len(uploads()) != 1 {
			t.Errorf("a young upload: %v, %v", uploads(), err)
		}
		var began time.Time // by the clock of the server, which counts in seconds
		for u := range b.client.ListIncompleteUploads(ctx, b.name, b.prefix, false) {
			began = u.Initiated
		}
		b.endUploads(ctx, began.Add(time.Second))
		if left := uploads(); len(left) != 0 {
			t.Errorf("an old upload: %v", left)
		}
	})

	t.Run("a file that is too large is not kept", func(t *testing.T) {
		u := (*Unfit)(nil)
		body := io.MultiReader(bytes.NewReader(wave(100)), endless{})
		if n, err := b.Put(ctx, someID, body, "audio/wav", 2*partSize); !errors.As(err, &u) {
			t.Errorf("%d bytes, %v", n, err)
		}
		if _, err := b.Size(ctx, someID); !errors.Is(err, ErrNone) {
			t.Errorf("Size says %v", err)
		}
	})

	t.Run("a client is sent to it for some minutes, with a type and a name", func(t *testing.T) {
		want := wave(5000)
		if _, err := b.Put(ctx, someID, bytes.NewReader(want), "audio/wav", 1<<20); err != nil {
			t.Fatal(err)
		}
		at, err := b.Address(ctx, someID, "audio/wav", `attachment; filename="track.wav"`)
		if err != nil {
			t.Fatal(err)
		}
		res, err := http.Get(at)
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(res.Body)
		if err := errors.Join(err, res.Body.Close()); err != nil || !bytes.Equal(got, want) ||
			res.Header.Get("Content-Type") != "audio/wav" ||
			!strings.Contains(res.Header.Get("Content-Disposition"), "track.wav") {
			t.Errorf("%d bytes, %v, %v", len(got), res.Header, err)
		}
		for _, forged := range []string{strings.Replace(at, "X-Amz-Expires=300", "X-Amz-Expires=3000", 1),
			strings.Replace(at, someID, "1"+someID[1:], 1)} {
			if res, err := http.Get(forged); err != nil || res.StatusCode != 403 || forged == at {
				t.Errorf("a forged address: %v, %v", res.Status, err)
			} else {
				_ = res.Body.Close()
			}
		}
	})

	t.Run("strangers and wrong keys are refused, without a word of them", func(t *testing.T) {
		for hint, change := range map[string]func(*config.S3){
			"says NoSuchBucket": func(c *config.S3) {
				c.AccessKey, c.SecretKey = config.Secret(s.StrangerID), config.Secret(s.StrangerKey)
			},
			"check the keys":       func(c *config.S3) { c.SecretKey = "hunter3" },
			"check the keys in":    func(c *config.S3) { c.AccessKey = "nobody:media" },
			"make the bucket":      func(c *config.S3) { c.Bucket = "another-bucket" },
			"media.s3.region":      func(c *config.S3) { c.Region = "eu-west-9" },
			"connect: connection ": func(c *config.S3) { c.Endpoint = "http://127.0.0.1:1" },
		} {
			_, err := bucketAt(t, s, change).Put(ctx, someID, bytes.NewReader(wave(100)), "audio/wav", 1000)
			if err == nil || !strings.Contains(err.Error(), hint) || strings.Contains(err.Error(), "hunter") {
				t.Errorf("%s: %v", hint, err)
			}
		}
	})

	t.Run("it is tried before customers meet it", func(t *testing.T) {
		check := func(change func(*config.S3)) (string, error) {
			path := true
			cfg := &config.Config{Media: config.Default[config.Media]()}
			cfg.Media.S3 = &config.S3{Endpoint: s.URL, Bucket: s.Bucket, Region: s.Region, Prefix: "tried",
				AccessKey: config.Secret(s.AccessKey), SecretKey: config.Secret(s.SecretKey), PathStyle: &path,
				Timeout: 30 * time.Second}
			change(cfg.Media.S3)
			return Check(ctx, cfg)
		}
		if good, err := check(func(*config.S3) {}); err != nil || !strings.Contains(good, s.Bucket) {
			t.Errorf("it is said %q, %v", good, err)
		}
		for hint, change := range map[string]func(*config.S3){
			"check the keys":       func(c *config.S3) { c.SecretKey = "hunter3" },
			"make the bucket":      func(c *config.S3) { c.Bucket = "another-bucket" },
			"media.s3.region":      func(c *config.S3) { c.Region = "eu-west-9" },
			"connect: connection ": func(c *config.S3) { c.Endpoint = "http://127.0.0.1:1" },
		} {
			if good, err := check(change); err == nil || !strings.Contains(err.Error(), hint) ||
				strings.Contains(err.Error(), "hunter") {
				t.Errorf("%s: %q, %v", hint, good, err)
			}
		}
		for o := range s.Client().ListObjects(ctx, s.Bucket, minio.ListObjectsOptions{Prefix: "tried", Recursive: true}) {
			t.Errorf("leftover: %s %v", o.Key, o.Err)
		}
	})

	t.Run("keys in a file are read again when it changes", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "credentials")
		write := func(secret string) {
			text := "[media]\naws_access_key_id = " + s.AccessKey + "\naws_secret_access_key = " + secret + "\n"
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		write("hunter1234")
		b := bucketAt(t, s, func(c *config.S3) {
			c.AccessKey, c.SecretKey, c.CredentialsFile, c.Profile = "", "", path, "media"
		})
		if _, err := b.Size(ctx, someID); err == nil || errors.Is(err, ErrNone) {
			t.Errorf("with a wrong key: %v", err)
		}
		write(s.SecretKey)
		if _, err := b.Size(ctx, someID); err != nil {
			t.Errorf("with the right one: %v", err)
		}
	})

	t.Run("objects of others are not listed", func(t *testing.T) {
		for _, name := range []string{"some/where/notes.txt", "elsewhere/" + someID, "some/where/deep/" + someID} {
			if _, err := s.Client().PutObject(ctx, s.Bucket, name, strings.NewReader("x"), 1,
				minio.PutObjectOptions{DisableContentSha256: true}); err != nil {
				t.Fatal(err)
			}
		}
		n := 0
		if err := b.List(ctx, func(f File) bool { n++; return true }); err != nil || n != 1 {
			t.Errorf("%d files are listed, %v", n, err)
		}
	})
}

// A redirect of a bucket's server is not followed: it could lead to the cloud's own addresses.
func TestABucketLeadsNowhereElse(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1) }))
	defer other.Close()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, other.URL, http.StatusTemporaryRedirect)
	}))
	defer server.Close()
	b := bucketAt(t, &servers.S3{URL: server.URL, Bucket: "media", Region: "us-east-1", AccessKey: "a", SecretKey: "b"},
		nil)
	if _, err := b.Put(t.Context(), someID, bytes.NewReader(wave(100)), "audio/wav", 1000); err == nil {
		t.Error("Put follows")
	}
	if _, err := b.Open(t.Context(), someID, 0, -1); err == nil {
		t.Error("Open follows")
	}
	if asked.Load() != 0 {
		t.Errorf("the other server was asked %d times", asked.Load())
	}
}

// A server that stops in the middle does not hold a file's reader for ever.
func TestASilentBucketIsGivenUp(t *testing.T) {
	t.Parallel()
	done := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet && !strings.Contains(r.URL.Path, "silent") {
			w.Header().Set("Content-Length", "1000000")
			w.Header().Set("Last-Modified", "Mon, 02 Jan 2006 15:04:05 GMT")
			_, _ = w.Write(wave(1000))
			_ = http.NewResponseController(w).Flush()
		}
		<-done
	}))
	defer server.Close()
	defer close(done)
	b := bucketAt(t, &servers.S3{URL: server.URL, Bucket: "media", Region: "us-east-1", AccessKey: "a", SecretKey: "b"},
		func(c *config.S3) { c.Timeout = 100 * time.Millisecond })
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	r, err := b.Open(ctx, someID, 0, -1)
	if err != nil {
		t.Fatal(err)
	}
	if n, err := io.Copy(io.Discard, r); err == nil || ctx.Err() != nil {
		t.Errorf("%d bytes, %v", n, err)
	}
	if _, err := b.Open(ctx, "silent-silent", 0, -1); err == nil || ctx.Err() != nil {
		t.Errorf("a request without an answer: %v", err)
	}
}

// The error of a key without all permissions names the missing ones.
func TestKeysOfABucketLackPermission(t *testing.T) {
	t.Parallel()
	for method, lacks := range map[string]string{"PUT": "s3:PutObject", "GET": "s3:GetObject", "DELETE": "s3:DeleteObject"} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("ETag", `"d41d8cd98f00b204e9800998ecf8427e"`)
			if r.Method == method {
				w.WriteHeader(http.StatusForbidden)
				_, _ = w.Write([]byte("<Error><Code>AccessDenied</Code><Message>hunter2</Message></Error>"))
			}
		}))
		defer server.Close()
		b := bucketAt(t, &servers.S3{URL: server.URL, Bucket: "media", Region: "us-east-1", AccessKey: "a", SecretKey: "b"}, nil)
		_, err := b.check(t.Context())
		if err == nil || !strings.Contains(err.Error(), "must be allowed "+lacks) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("without %s: %v", method, err)
		}
	}
}
