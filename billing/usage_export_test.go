package billing

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"farebox/config"
)

// faultyBucket is a bucket whose server fails, or keeps other bytes.
type faultyBucket struct {
	files       map[string][]byte
	fails, cuts bool
}

func (b *faultyBucket) Name() string { return "the bucket" }

func (b *faultyBucket) Add(_ context.Context, path, name string) error {
	if b.fails {
		return errors.New("the server is away")
	}
	data, err := os.ReadFile(path)
	if b.cuts {
		data = data[:len(data)-1]
	}
	b.files[name] = data
	return err
}

func (b *faultyBucket) Open(_ context.Context, name string) (io.ReadCloser, error) {
	data, found := b.files[name]
	if !found {
		return nil, fs.ErrNotExist
	}
	return io.NopCloser(bytes.NewReader(data)), nil
}

// "The bucket had lost a day, and the requests were gone here, too."
func TestRequestsArePrunedWhenTheirBucketHasThem(t *testing.T) {
	f := openLedger(t)
	f.account("a", 100*usd)
	k, _ := f.key("a")
	b := &faultyBucket{files: map[string][]byte{}, fails: true}
	f.buckets = func(string, *config.S3) (Bucket, error) { return b, nil }
	f.Configure(&config.Config{Usage: config.Usage{Keep: 90, ExportS3: &config.S3{}}})
	f.spend(k, 5, usd)
	if err := f.project.drain(); err != nil {
		t.Fatal(err)
	}
	f.clock.advance(100 * 24 * time.Hour)
	prune := func(want string) {
		t.Helper()
		err := f.retention.prune()
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("pruning says %v, expected %q", err, want)
		}
		left, err := f.Audit()
		if err != nil || len(left.Faults) > 0 || (left.Requests == 0) != (want == "") {
			t.Errorf("%d requests are left (%v), %v", left.Requests, err, left.Faults)
		}
	}
	prune("the server is away")
	b.fails, b.cuts = false, true
	prune("read the export")
	b.cuts = false
	prune("")
	var names []string
	for name, data := range b.files {
		names = append(names, name)
		if zip, err := gzip.NewReader(bytes.NewReader(data)); err == nil && strings.Contains(name, ".2.") {
			if n, err := countLines(zip); n != 5 || err != nil {
				t.Errorf("%s has %d requests (%v)", name, n, err)
			}
		}
	}
	if len(names) != 2 {
		t.Errorf("the bucket has %v; the cut file and the whole one were expected", names)
	}
	if drafts, _ := filepath.Glob(filepath.Join(f.dir, ".usage-*")); len(drafts) != 0 {
		t.Errorf("%v are left", drafts)
	}
}
