package augment

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"farebox/bench/servers"
	"farebox/tests/rig"
)

// script is a program of the operator's that every user may run.
func script(t testing.TB, text string) (path string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "farebox-test-program-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	path = filepath.Join(dir, "program")
	// A child that another test starts meanwhile would inherit the open file: text file busy.
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+text+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

// The operator's programs read the configured kinds of documents, cost the same, and fail
// without a charge.
func TestDocumentsAreReadByOtherEngines(t *testing.T) {
	t.Parallel()
	pdftotext, tesseract := servers.Tool(t, "pdftotext"), servers.Tool(t, "tesseract")
	config := func(parser string) string {
		return settings + "augment: { text_parser: { workers: 1, timeout: 60s, " + parser + " } }\n"
	}
	s := start(t, config("engine: pdftotext, path: "+pdftotext), "10")
	text := part{"response_format", "", "text"}
	// answers says how a document ends, and that no word of it is logged.
	answers := func(t *testing.T, doc []byte, status int, want string) {
		t.Helper()
		if got, answer := s.parse(t, "a", doc, text); got != status || !strings.Contains(answer, want) {
			t.Errorf("%d %.300s, want %d %s", got, answer, status, want)
		}
		if log := s.Log(); strings.Contains(log, "stork") {
			t.Error("the log quotes a document")
		}
		charged := 0
		if status == 200 {
			charged = 1
		}
		s.charged(t, charged)
	}
	paper := pdf("A stork on paper")

	t.Run("pdftotext", func(t *testing.T) {
		answers(t, paper, 200, "A stork on paper")
		answers(t, docx(t, "A stork"), 200, "A stork") // its unsupported formats are read as before
		answers(t, pdf(""), 400, "No text could be extracted")
		answers(t, []byte("%PDF-1.7\n<</stork"), 400, "cannot be read")
	})
	t.Run("a program in its place", func(t *testing.T) {
		s.reload(config("engine: pdftotext, path: " + script(t, "echo pelican")))
		answers(t, paper, 200, "pelican")
		quoting := script(t, `read -r line; echo "$line" >&2; exit 1`) // its error quotes the document
		s.reload(config("engine: pdftotext, path: " + quoting))
		answers(t, append([]byte("%PDF-1.7 stork\n"), paper...), 400, "cannot be read")
		s.AwaitLog("a program in the jail failed")
		s.reload(config("engine: pdftotext, path: " + script(t, "exit 99")))
		answers(t, paper, 503, "othing was charged")
	})
	t.Run("tesseract", func(t *testing.T) {
		scanned := scan(t, 1, pdf("A stork on a wall"))
		s.reload(config("engine: builtin"))
		answers(t, scanned, 400, "No text could be extracted")
		s.reload(config("ocr: { engine: tesseract, path: " + tesseract + " }"))
		answers(t, scanned, 200, "A stork on a wall")
		answers(t, paper, 200, "A stork on paper")
		answers(t, pdf(""), 400, "No text could be extracted")
		twice := scan(t, 2, pdf("A stork on a wall"))
		for pages := 1; pages <= 2; pages++ {
			s.reload(config(fmt.Sprintf("ocr: { engine: tesseract, pages: %d }", pages)))
			status, answer := s.parse(t, "a", twice, text)
			if n := strings.Count(answer, "stork"); status != 200 || n != pages {
				t.Errorf("%d pages of two: %d %s", pages, status, answer)
			}
			s.charged(t, 1)
		}
		s.reload(config("ocr: { engine: tesseract, languages: xxx }"))
		answers(t, scanned, 503, "othing was charged")
	})
	t.Run("our failures are counted, wrong documents are not", func(t *testing.T) {
		if n, _ := s.Metric(`farebox_augment_failed_total{of="text_parser"}`); n != 2 {
			t.Errorf("%v failures are counted, want 2", n)
		}
		if n, _ := s.Metric(`farebox_augment_duration_seconds_count{of="text_parser"}`); n != 7 {
			t.Errorf("%v durations are counted, want 7", n)
		}
	})
	t.Run("a missing program is reported before it is needed", func(t *testing.T) {
		s.WriteConfig(config("engine: pdftotext, path: /nowhere/pdftotext"))
		s.Signal(rig.Hangup)
		s.AwaitLog("cannot start /nowhere/pdftotext")
		answers(t, []byte("a stork in plain words"), 200, "plain words")
	})
	s.CLI("verify")
}
