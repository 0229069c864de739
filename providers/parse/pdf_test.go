package parse

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"farebox/bench/servers"
	"farebox/providers/jail"
)

func TestPDFsAreRead(t *testing.T) {
	if text := says(t, sample(t,
		"hello_world.pdf")); text != "Hello, world!\nGoodbye, world!\n\nHello, world!\nGoodbye, world!" &&
		text != "Hello, world!\nGoodbye, world!" {
		t.Errorf("%q", text)
	}
	for name, reason := range map[string]string{
		"encrypted_hello_world_r6.pdf": "encrypted", "encrypted.pdf": "encrypted",
		"black.pdf": "no_text", "about_blank.pdf": "no_text",
	} {
		if got := because(t, sample(t, name)); got != reason {
			t.Errorf("%s: %s, want %s", name, got, reason)
		}
	}
}

// "After thirty forms the reader says that the next one is damaged."
func TestFormsLeaveNothingBehind(t *testing.T) {
	pool := jail.New(jail.Options{Workers: 1, Cache: sharedCache})
	defer pool.Close()
	p := New(pool, Options{})
	for i := range 60 {
		// Values of other lengths lie at other addresses.
		value := strings.Repeat("stork ", 1+1000*i)
		text, err := p.Text(t.Context(), pdfOf("<</Type /Catalog /Pages 2 0 R /AcroForm <</Fields [4 0 R]>>>>", onePage,
			"<</Type /Page /Parent 2 0 R /MediaBox [0 0 600 800] /Annots [4 0 R]>>",
			"<</Type /Annot /Subtype /Widget /FT /Tx /T (a) /Rect [0 0 99 99] /V ("+value+")>>"))
		if err != nil || !strings.HasPrefix(text.Text, "stork") {
			t.Fatalf("form %d: %.20q, %v", i, text.Text, err)
		}
	}
	if n := pool.Started(); n != 1 {
		t.Errorf("%d children for 60 forms: their memory grows", n)
	}
}

// TestLongPDFsReadAsByPoppler compares with pdftotext: the documents of at
// least a thousand words that public Go modules bring.
func TestLongPDFsReadAsByPoppler(t *testing.T) {
	poppler := servers.Tool(t, "pdftotext")
	var files []string
	for _, pattern := range []string{
		module(t, pdfcpuAt) + "/pkg/testdata/*.pdf", module(t, pdfiumAt) + "/" + samples + "/*.pdf",
		module(t, gethAt) + "/docs/audits/*.pdf",
	} {
		found, _ := filepath.Glob(pattern)
		files = append(files, found...)
	}
	sum, n := 0.0, 0
	for _, name := range files {
		want, err := exec.Command(poppler, name, "-").Output()
		if err != nil || len(strings.Fields(string(want))) < 1000 {
			continue
		}
		began := time.Now()
		text, err := textOf(t, file(t, name))
		if err != nil {
			t.Errorf("%s: %v", filepath.Base(name), err)
		}
		score, _ := servers.WordF1(text.Text, string(want))
		t.Logf("%.3f %5d ms %s", score, time.Since(began).Milliseconds(), filepath.Base(name))
		sum += score
		n++
		if dir := os.Getenv("PARSE_KEEP"); dir != "" {
			_ = os.WriteFile(filepath.Join(dir, filepath.Base(name)+".txt"), []byte(text.Text), 0o600)
		}
	}
	if n < 27 {
		t.Fatalf("only %d documents", n)
	}
	t.Logf("%d documents: word F1 %.4f", n, sum/float64(n))
	if sum/float64(n) < 0.97 {
		t.Errorf("word F1 %.4f, want 0.97", sum/float64(n))
	}
}
