package scrape

import (
	"bytes"
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"html"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"codeberg.org/readeck/go-readability/v2"
	nethtml "golang.org/x/net/html"
)

// known is a page of go-trafilatura's own comparison, with required and forbidden texts
// of its content.
type known struct {
	url           string
	html          []byte
	with, without []string
}

// The test files of this module are the pages. Nothing links it, so that it is not in go.mod.
const (
	comparison    = "github.com/markusmobius/go-trafilatura@v1.12.2"
	comparisonSum = "h1:JgEto0kDjwTuyXFl6TB+psrs1QGJqTdYJEbLhDy1vrw="
)

// knownPages come as a Go module, with a fixed checksum as in go.sum.
func knownPages(t *testing.T) (list []known) {
	t.Helper()
	download := exec.Command("go", "mod", "download", "-json", comparison)
	download.Env = append(os.Environ(), "GONOSUMDB=github.com/markusmobius")
	out, err := download.Output()
	var module struct{ Dir, Sum string }
	if err == nil {
		err = json.Unmarshal(out, &module)
	}
	if err != nil || module.Dir == "" {
		t.Fatal("cannot get the pages: ", err)
	}
	if module.Sum != comparisonSum {
		t.Fatalf("%s has the sum %s", comparison, module.Sum)
	}
	file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(module.Dir, "scripts/comparison/data.go"), nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	words := func(e ast.Expr) (list []string) {
		for _, e := range e.(*ast.CompositeLit).Elts {
			list = append(list, text(t, e))
		}
		return list
	}
	ast.Inspect(file, func(n ast.Node) bool {
		v, ok := n.(*ast.ValueSpec)
		if !ok || v.Names[0].Name != "comparisonData" {
			return true
		}
		for _, e := range v.Values[0].(*ast.CompositeLit).Elts {
			k := known{url: text(t, e.(*ast.KeyValueExpr).Key)}
			for _, f := range e.(*ast.KeyValueExpr).Value.(*ast.CompositeLit).Elts {
				f := f.(*ast.KeyValueExpr)
				switch f.Key.(*ast.Ident).Name {
				case "File":
					for _, folder := range []string{"comparison", "mock"} {
						if b, err := os.ReadFile(filepath.Join(module.Dir, "test-files", folder, text(t, f.Value))); err == nil {
							k.html = b
							break
						}
					}
				case "With":
					k.with = words(f.Value)
				case "Without":
					k.without = words(f.Value)
				}
			}
			list = append(list, k)
		}
		return false
	})
	return list
}

func text(t *testing.T, e ast.Expr) string {
	s, err := strconv.Unquote(e.(*ast.BasicLit).Value)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

var (
	rxImage  = regexp.MustCompile(`!\[([^\]]*)\]\([^)]*\)`)
	rxLink   = regexp.MustCompile(`\]\([^)]*\)`)
	rxLine   = regexp.MustCompile(`(?m)^[ \t>]*(#{1,6} |[-*+] |\d+[.)] |\* \* \*$|` + "```" + `\S*$|\|?[-:| ]+\|$)`)
	rxMark   = regexp.MustCompile("\\*\\*|[*_`\\[|]")
	rxEscape = regexp.MustCompile(`\\([!-/:-@\[-` + "`" + `{-~])`)
	rxSpace  = regexp.MustCompile(`[\s\x{a0}]+`)
)

// unmarked is the text of Markdown.
func unmarked(md string) string {
	md = rxImage.ReplaceAllString(md, " ")
	md = rxLink.ReplaceAllString(md, "")
	md = rxLine.ReplaceAllString(md, "")
	md = rxEscape.ReplaceAllString(md, "$1")
	return spaced(html.UnescapeString(md))
}

func spaced(s string) string {
	return strings.TrimSpace(rxSpace.ReplaceAllString(rxMark.ReplaceAllString(s, ""), " "))
}

// score counts wanted texts that are found and missed, and unwanted ones that are found.
type score struct{ tp, fn, fp int }

func (s *score) add(k *known, md string) {
	md = unmarked(md)
	for _, w := range k.with {
		if strings.Contains(md, spaced(w)) {
			s.tp++
		} else {
			s.fn++
		}
	}
	for _, w := range k.without {
		if strings.Contains(md, spaced(w)) {
			s.fp++
		}
	}
}

func (s score) f() float64 { return 2 * float64(s.tp) / float64(2*s.tp+s.fp+s.fn) }

// The main content of 983 pages of all kinds is found with a fixed F score at the least.
func TestLongMainContentIsFound(t *testing.T) {
	const least = .875
	pages := knownPages(t)
	if len(pages) < 980 {
		t.Fatalf("%d pages", len(pages))
	}
	var s score
	var mu sync.Mutex
	var wg sync.WaitGroup
	var took, bare time.Duration
	empty := 0
	next := make(chan *known)
	for range runtime.GOMAXPROCS(0) {
		wg.Add(1)
		go func() {
			defer wg.Done()
			runtime.LockOSThread()
			for k := range next {
				began := cpuTime()
				out, err := readPage(k.html, (&task{URL: k.url}).word())
				mid := cpuTime()
				at, _ := url.Parse(k.url) // the same without us
				if doc, err := nethtml.Parse(bytes.NewReader(k.html)); err == nil {
					p := readability.NewParser()
					_, _ = p.ParseAndMutate(doc, at)
				}
				end := cpuTime()
				f, bad := parseFound(out)
				mu.Lock()
				if err != nil || bad != nil {
					t.Error(k.url, err, bad)
				}
				if f.visible == 0 {
					empty++
				}
				s.add(k, f.markdown)
				took += mid - began
				bare += end - mid
				mu.Unlock()
			}
		}()
	}
	for i := range pages {
		next <- &pages[i]
	}
	close(next)
	wg.Wait()
	n := time.Duration(len(pages))
	t.Logf("F %.4f (P %.3f, R %.3f), %v of CPU a page (readability alone: %v), %d empty", s.f(),
		float64(s.tp)/float64(s.tp+s.fp), float64(s.tp)/float64(s.tp+s.fn), (took / n).Round(10*time.Microsecond),
		(bare / n).Round(10*time.Microsecond), empty)
	if s.f() < least {
		t.Errorf("F %.4f, not %.3f", s.f(), least)
	}
}
