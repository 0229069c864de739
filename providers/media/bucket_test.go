package media

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"farebox/bench/servers"
	"farebox/config"
)

// "The export was in the bucket, but it was not what we had written."
func TestFilesOfABucketComeBackWhole(t *testing.T) {
	t.Parallel()
	s := servers.StartS3(t)
	c := config.S3{Endpoint: s.URL, Bucket: s.Bucket, Region: s.Region, AccessKey: config.Secret(s.AccessKey),
		SecretKey: config.Secret(s.SecretKey), Prefix: "exports", Timeout: 30 * time.Second}
	f, err := OpenFiles("usage.export_s3", &c)
	if err != nil {
		t.Fatal(err)
	}
	const name = "usage-2026-08-31.2.jsonl.gz"
	if _, err := f.Open(t.Context(), name); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file that is not there: %v", err)
	}
	path := filepath.Join(t.TempDir(), "draft")
	for _, size := range []int{0, 1, 2*filePart + 12345} {
		want := wave(size)
		if err := os.WriteFile(path, want, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := f.Add(t.Context(), path, name); err != nil {
			t.Fatal(err)
		}
		r, err := f.Open(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(r)
		_ = r.Close()
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("of %d bytes %d come back (%v)", size, len(got), err)
		}
	}
	for range 2 {
		if good, err := CheckFiles(t.Context(), "usage.export_s3", &c); err != nil || !strings.Contains(good, s.Bucket) {
			t.Errorf("the check says %q, %v", good, err)
		}
	}
	c.SecretKey = "wrong"
	if good, err := CheckFiles(t.Context(), "usage.export_s3", &c); err == nil || !strings.Contains(err.Error(), "usage.export_s3") {
		t.Errorf("with another secret the check says %q, %v", good, err)
	}
	if f, err = OpenFiles("usage.export_s3", &c); err != nil {
		t.Fatal(err)
	}
	if err := f.Add(t.Context(), path, name); err == nil || !strings.Contains(err.Error(), "usage.export_s3") {
		t.Errorf("with another secret: %v", err)
	}
}
