package servers

import (
	"bufio"
	"context"
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
)

// S3 is OpenStack Swift, the package of Debian, whose proxy speaks S3 and proves every
// signature: its proxy and its servers of accounts, containers and objects, on free ports
// of the loopback address, with one device in a temporary folder.
type S3 struct {
	URL                     string
	Bucket, Region          string
	AccessKey, SecretKey    string
	StrangerKey, StrangerID string // of an account that has no part in the bucket

	tb testing.TB
}

//go:embed swift.py
var swiftProgram []byte

const (
	swiftHash = `[swift-hash]
swift_hash_path_suffix = tests
[storage-policy:0]
name = one
default = yes
`
	swiftServer = `[DEFAULT]
user = %s
swift_dir = %s
devices = %s
mount_check = false
fallocate_reserve = 0
[pipeline:main]
pipeline = %[4]s-server
[app:%[4]s-server]
use = egg:swift#%[4]s
`
	// The cache is never there: every look-up is made anew.
	swiftProxy = `[DEFAULT]
user = %s
swift_dir = %s
[pipeline:main]
pipeline = catch_errors gatekeeper listing_formats cache bulk s3api tempauth copy slo dlo versioned_writes proxy-server
[filter:catch_errors]
use = egg:swift#catch_errors
[filter:gatekeeper]
use = egg:swift#gatekeeper
[filter:listing_formats]
use = egg:swift#listing_formats
[filter:cache]
use = egg:swift#memcache
memcache_servers = 127.0.0.1:1
connect_timeout = 0.1
[filter:bulk]
use = egg:swift#bulk
[filter:s3api]
use = egg:swift#s3api
location = us-east-1
[filter:tempauth]
use = egg:swift#tempauth
user_farebox_media = hunter2 .admin
user_stranger_media = hunter2 .admin
[filter:copy]
use = egg:swift#copy
[filter:slo]
use = egg:swift#slo
[filter:dlo]
use = egg:swift#dlo
[filter:versioned_writes]
use = egg:swift#versioned_writes
[app:proxy-server]
use = egg:swift#proxy
account_autocreate = true
`
)

// StartS3 runs a server with a bucket in it, ended with the test.
func StartS3(tb testing.TB) *S3 {
	tb.Helper()
	needMachineClock(tb)
	const python, module = "/usr/bin/python3", "/usr/lib/python3/dist-packages/swift"
	if _, err := os.Stat(module); err != nil {
		Missing(tb, "OpenStack Swift (python3-swift of Debian)")
	}
	s := &S3{tb: tb, Bucket: "farebox-media", Region: "us-east-1", AccessKey: "farebox:media", SecretKey: "hunter2",
		StrangerID: "stranger:media", StrangerKey: "hunter2"}
	me, err := user.Current()
	if err != nil {
		tb.Fatal(err)
	}
	dir := tb.TempDir()
	devices := filepath.Join(dir, "devices")
	if err := os.MkdirAll(filepath.Join(devices, "one"), 0o700); err != nil {
		tb.Fatal(err)
	}
	program := filepath.Join(dir, "serve.py")
	files := map[string]string{"swift.conf": swiftHash, "serve.py": string(swiftProgram),
		"proxy.conf": fmt.Sprintf(swiftProxy, me.Username, dir)}
	for _, kind := range []string{"account", "container", "object"} {
		files[kind+".conf"] = fmt.Sprintf(swiftServer, me.Username, dir, devices, kind)
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			tb.Fatal(err)
		}
	}
	s.start(exec.Command(python, program, dir), filepath.Join(dir, "log"))
	return s
}

// start waits until the program has said its port, and makes the bucket.
func (s *S3) start(c *exec.Cmd, path string) {
	s.tb.Helper()
	log, err := os.Create(path)
	if err != nil {
		s.tb.Fatal(err)
	}
	c.Stderr = log
	said, err := c.StdoutPipe()
	if err != nil {
		s.tb.Fatal(err)
	}
	stdin, err := c.StdinPipe() // it ends with this process, in any case
	if err != nil {
		s.tb.Fatal(err)
	}
	if err := c.Start(); err != nil {
		s.tb.Fatal(err)
	}
	s.tb.Cleanup(func() {
		_ = c.Process.Kill()
		_ = stdin.Close()
		_ = c.Wait()
		_ = log.Close()
		if s.tb.Failed() {
			text, _ := os.ReadFile(path)
			s.tb.Logf("Swift said:\n%.4000s", text)
		}
	})
	port, err := bufio.NewReader(said).ReadString('\n')
	if err != nil {
		s.tb.Fatalf("Swift did not start: %v", err)
	}
	s.URL = "http://127.0.0.1:" + strings.TrimSpace(port)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := s.Client().MakeBucket(ctx, s.Bucket, minio.MakeBucketOptions{Region: s.Region}); err != nil {
		s.tb.Fatalf("Swift does not make a bucket: %v", err)
	}
}

// Client is for a look at the bucket beside the tested code.
func (s *S3) Client() *minio.Client {
	s.tb.Helper()
	c, err := minio.New(strings.TrimPrefix(s.URL, "http://"), &minio.Options{
		Creds: credentials.NewStaticV4(s.AccessKey, s.SecretKey, ""), Region: s.Region,
		BucketLookup: minio.BucketLookupPath, MaxRetries: 5,
	})
	if err != nil {
		s.tb.Fatal(err)
	}
	return c
}
