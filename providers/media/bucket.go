package media

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/minio/minio-go/v7"

	"farebox/config"
)

// Files are files with names of their own in a bucket.
type Files struct{ b *bucket }

// OpenFiles opens the bucket of a key of the config. Nothing is sent yet.
func OpenFiles(key string, c *config.S3) (*Files, error) {
	b, err := openBucket(key, c)
	if err != nil {
		return nil, fmt.Errorf("cannot use %s: %w", key, err)
	}
	return &Files{b}, nil
}

// Name is the place, for operators.
func (f *Files) Name() string { return f.b.at }

// Add copies a file to a name. It replaces an older one at once and whole.
func (f *Files) Add(ctx context.Context, path, name string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	return f.put(ctx, file, info.Size(), name)
}

func (f *Files) put(ctx context.Context, from io.Reader, size int64, name string) error {
	_, err := f.b.client.PutObject(ctx, f.b.name, f.b.prefix+name, from, size, minio.PutObjectOptions{
		ContentType: "application/gzip", PartSize: filePart, SendContentMd5: true, DisableContentSha256: true})
	return f.b.error("kept", err)
}

// filePart lets a file have 160 GB in the 10,000 parts that servers take.
const filePart = 16 << 20

// Open reads a file; [fs.ErrNotExist] if it does not exist.
func (f *Files) Open(ctx context.Context, name string) (io.ReadCloser, error) {
	core := minio.Core{Client: f.b.client}
	body, _, _, err := core.GetObject(ctx, f.b.name, f.b.prefix+name, minio.GetObjectOptions{})
	if err = f.b.error("read", err); errors.Is(err, ErrNone) {
		return nil, fmt.Errorf("%s is not in %s: %w", name, f.b.at, fs.ErrNotExist)
	}
	return body, err
}
