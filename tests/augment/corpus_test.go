package augment

import (
	"bufio"
	_ "embed"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"farebox/bench/servers"
)

// corpusList is the list of the corpus: packages of the registries, below each the documents
// that it ships, and after # why a document cannot have the words of its reference.
//
//go:embed testdata/corpus.txt
var corpusList string

// sample is a document of the corpus.
type sample struct {
	source, path, reason string
	file                 string // where it is
	want, got            string
	f1                   float64
	words                int
}

// kind is its extension.
func (s *sample) kind() string { return strings.ToLower(filepath.Ext(s.path)) }

// TestLongCorpusIsReadAsByOthers compares with the text that other programs read out of the
// documents: pdftotext for PDFs, LibreOffice for the rest. Before fields, notes, hidden
// parts and charts were read as they are seen, the mean was 0.925.
func TestLongCorpusIsReadAsByOthers(t *testing.T) {
	t.Parallel()
	servers.Tool(t, "pdftotext")
	servers.Tool(t, "soffice")
	all := corpus(t)
	references(t, all)
	s := start(t, settings+"augment: { text_parser: { rate: { rpm: 0 }, workers: 2, timeout: 1m } }\n", "10")
	var work sync.WaitGroup
	for i := range 2 {
		work.Go(func() {
			for _, one := range all[i*len(all)/2 : (i+1)*len(all)/2] {
				doc, err := os.ReadFile(one.file)
				if err != nil {
					t.Error(err)
					continue
				}
				status, text := s.parse(t, one.path, doc, part{"response_format", "", "text"})
				if one.got = text; status != 200 {
					one.got = ""
					t.Logf("%s %s: %d %.120s", one.source, one.path, status, text)
				}
				one.f1, one.words = servers.WordF1(one.got, one.want)
			}
		})
	}
	work.Wait()
	slices.SortFunc(all, func(a, b *sample) int { return int(1e6 * (a.f1 - b.f1)) })
	sum, n := 0.0, 0
	for _, one := range all {
		if one.words >= 100 {
			sum += one.f1
			n++
		}
		if one.f1 < 0.9 {
			t.Logf("%.3f %6d words %s %s %s", one.f1, one.words, one.source, one.path, one.reason)
		}
		if one.f1 < 0.5 && one.reason == "" {
			t.Errorf("%s of %s: word F1 %.3f, and testdata/corpus.txt has no reason", one.path, one.source, one.f1)
		}
	}
	t.Logf("%d documents; %d of at least 100 words: word F1 %.4f", len(all), n, sum/float64(n))
	if len(all) < 150 || n < 80 || sum/float64(n) < 0.97 {
		t.Errorf("want 150 documents, 80 of at least 100 words with a word F1 of 0.97")
	}
}

// corpus fetches the packages and finds the documents.
func corpus(t *testing.T) (all []*sample) {
	t.Helper()
	dirs := map[string]string{}
	source := ""
	for lines := bufio.NewScanner(strings.NewReader(corpusList)); lines.Scan(); {
		path, is := strings.CutPrefix(lines.Text(), "\t")
		if !is {
			source = lines.Text()
			kind, name, _ := strings.Cut(source, " ")
			dirs[source] = map[string]func(*testing.T, string) string{"go": module, "pip": sdist}[kind](t, name)
			continue
		}
		path, reason, _ := strings.Cut(path, " # ")
		all = append(all, &sample{source: source, path: path, reason: reason, file: filepath.Join(dirs[source], path)})
	}
	return all
}

// module is where a module of Go lies.
func module(t *testing.T, name string) string {
	t.Helper()
	cmd := exec.Command("go", "mod", "download", "-json", name)
	cmd.Dir = t.TempDir() // no module of ours is asked
	out, err := cmd.Output()
	var m struct{ Dir, Error string }
	if json.Unmarshal(out, &m) != nil || m.Dir == "" {
		t.Fatalf("go mod download %s: %v %s", name, err, m.Error)
	}
	return m.Dir
}

// sdist is where the source of a package of Python lies.
func sdist(t *testing.T, name string) string {
	t.Helper()
	dir := t.TempDir()
	project, _, _ := strings.Cut(name, "==")
	run(t, servers.Tool(t, "pip", "pip3"), "download", "-q", "--disable-pip-version-check", "--no-deps", "--no-binary", project,
		"-d", dir, name)
	packed, _ := filepath.Glob(filepath.Join(dir, "*.tar.gz"))
	if len(packed) != 1 {
		t.Fatalf("pip download %s: %q", name, packed)
	}
	run(t, "tar", "-xzf", packed[0], "-C", dir, "--strip-components=1")
	return dir
}

func run(t *testing.T, name string, args ...string) {
	t.Helper()
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s %s: %v %s", name, strings.Join(args, " "), err, out)
	}
}

// references has others read the documents. LibreOffice makes text of letters, a table of each
// sheet of a workbook, and pages of slides.
func references(t *testing.T, all []*sample) {
	t.Helper()
	const sheets = "csv:Text - txt - csv (StarCalc):9,34,76,1,,0,false,true,false,false,false,-1"
	as := map[string]string{".docx": "txt:Text (encoded):UTF8", ".xlsx": sheets, ".xls": sheets, ".pptx": "pdf"}
	dir := t.TempDir()
	asked := map[string][]string{}
	for i, one := range all {
		if one.kind() == ".pdf" {
			out, _ := exec.Command("pdftotext", one.file, "-").Output()
			one.want = string(out)
			continue
		}
		doc, err := os.ReadFile(one.file)
		if err != nil {
			t.Fatal(err)
		}
		name := filepath.Join(dir, fmt.Sprint(i, one.kind()))
		if err := os.WriteFile(name, doc, 0o600); err != nil {
			t.Fatal(err)
		}
		asked[one.kind()] = append(asked[one.kind()], name)
	}
	for kind, names := range asked {
		run(t, "soffice", append([]string{"--headless", "-env:UserInstallation=file://" + dir + "/home", "--convert-to", as[kind],
			"--outdir", filepath.Join(dir, kind)}, names...)...)
	}
	for i, one := range all {
		made, err := fs.Glob(os.DirFS(filepath.Join(dir, one.kind())), fmt.Sprint(i, `[.\-]*`))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range made {
			path := filepath.Join(dir, one.kind(), name)
			out, _ := os.ReadFile(path)
			if one.kind() == ".pptx" {
				out, _ = exec.Command("pdftotext", path, "-").Output()
			}
			one.want += string(out) + "\n"
		}
	}
}
