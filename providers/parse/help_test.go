package parse

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"farebox/providers/jail"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == jail.Word {
		jail.Main(Jobs(), Warm)
	}
	cache, err := os.MkdirTemp("", "farebox-parse")
	if err != nil {
		panic(err)
	}
	sharedCache = cache
	code := m.Run()
	_ = os.RemoveAll(cache)
	os.Exit(code)
}

var sharedCache string

// children is one pool for the tests that break nothing.
var children = sync.OnceValue(func() *jail.Pool { return jail.New(jail.Options{Workers: 2, Cache: sharedCache}) })

func parser() *Parser { return New(children(), Options{}) }

func textOf(t testing.TB, doc []byte) (Text, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	return parser().Text(ctx, doc)
}

// says is textOf for documents that are fine.
func says(t testing.TB, doc []byte) string {
	t.Helper()
	text, err := textOf(t, doc)
	if err != nil {
		t.Fatalf("%v", err)
	}
	return text.Text
}

// outside is the text that a reader makes without a child.
func outside(read func(s *sink) error) ([]byte, error) {
	s := &sink{none: NoText}
	out, err := s.end(read(s))
	if err != nil {
		return nil, err
	}
	text, _ := opened(out, false)
	return []byte(text.Text), nil
}

// because is why a document gives no text.
func because(t testing.TB, doc []byte) string {
	t.Helper()
	text, err := textOf(t, doc)
	var e *Error
	if !errors.As(err, &e) {
		t.Fatalf("%.80q, %v; want an *Error", text.Text, err)
	}
	return e.Reason.String()
}

var modules sync.Map

// module is where a module's files are, downloaded where they are not yet.
func module(t testing.TB, path string) string {
	t.Helper()
	if dir, ok := modules.Load(path); ok {
		return dir.(string)
	}
	cmd := exec.Command("go", "mod", "download", "-json", path)
	cmd.Dir = t.TempDir() // no module of ours is asked
	out, err := cmd.Output()
	var m struct{ Dir, Error string }
	if json.Unmarshal(out, &m) != nil || m.Dir == "" {
		t.Fatalf("go mod download %s: %v %s", path, err, m.Error)
	}
	modules.Store(path, m.Dir)
	return m.Dir
}

// The reader is measured with PDFs of these modules.
const (
	pdfiumAt = "github.com/klippa-app/go-pdfium@v1.17.0"
	pdfcpuAt = "github.com/pdfcpu/pdfcpu@v0.11.0"
	gethAt   = "github.com/ethereum/go-ethereum@v1.15.11"
	samples  = "shared_tests/testdata"
)

func sample(t testing.TB, name string) []byte {
	t.Helper()
	return file(t, filepath.Join(module(t, pdfiumAt), samples, name))
}

func file(t testing.TB, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
