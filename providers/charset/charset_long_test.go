package charset

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/htmlindex"
	"golang.org/x/text/encoding/unicode"
)

// known is a file of a detector's own tests, in a folder that is named after its charset.
type known struct {
	path string
	in   []byte
	is   encoding.Encoding
}

var (
	rxLanguage = regexp.MustCompile(`-[a-z]{5,}$`)
	rxDeclared = regexp.MustCompile(`(?i)(encoding|charset)\s*=\s*["']?[-_a-z0-9]+["']?`)
)

// knownFiles come as a Go module, as the pages do that scraping is measured with. They are
// feeds and pages of the web. Without their declarations a reader has to detect the charset.
func knownFiles(t *testing.T) (list []known) {
	t.Helper()
	command := exec.Command("go", "mod", "download", "-json", "github.com/wlynxg/chardet@v1.0.4")
	command.Env = append(os.Environ(), "GOFLAGS=-mod=mod")
	out, err := command.Output()
	var module struct{ Dir string }
	if err == nil {
		err = json.Unmarshal(out, &module)
	}
	if err != nil || module.Dir == "" {
		t.Fatal("cannot get the files: ", err)
	}
	root := filepath.Join(module.Dir, "test", "testdata")
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Dir(path) == root {
			return err
		}
		label := rxLanguage.ReplaceAllString(strings.ToLower(filepath.Base(filepath.Dir(path))), "")
		if other, ok := map[string]string{"cp932": "shift_jis", "cp949": "euc-kr", "tis-620": "windows-874", "gb2312": "gb18030"}[label]; ok {
			label = other
		}
		e, err := htmlindex.Get(label)
		if strings.HasPrefix(label, "utf-16") {
			e, err = unicode.UTF16(unicode.Endianness(!strings.HasSuffix(label, "be")), unicode.UseBOM), nil
		}
		if err != nil || e == encoding.Replacement { // none of the web
			return nil
		}
		in, err := os.ReadFile(path)
		list = append(list, known{filepath.Join(label, filepath.Base(path)), in, e})
		return err
	})
	if err != nil || len(list) < 300 {
		t.Fatal(len(list), err)
	}
	return list
}

// Files of the web are read rightly without their word, with a wrong one, and with their own.
func TestLongCharsetsOfTheWebAreFound(t *testing.T) {
	files := knownFiles(t)
	for _, c := range []struct {
		name, contentType string
		least             float64
		own               bool
	}{
		{"undeclared", "text/html", .95, false},
		{"declared as ISO-8859-1", "text/html; charset=ISO-8859-1", .85, false},
		{"declared as GBK", "text/html; charset=gbk", .85, false},
		{"declared as Shift_JIS", "text/html; charset=shift_jis", .85, false},
		{"declared as KOI8-R", "text/html; charset=koi8-r", .8, false},
		{"declared as windows-1251", "text/html; charset=windows-1251", .8, false},
		{"declared as UTF-8", "text/html; charset=utf-8", .95, false},
		{"declared as it is", "", .99, true},
	} {
		right, all := map[string]int{}, map[string]int{}
		for _, f := range files {
			label := filepath.Dir(f.path)
			in, contentType := f.in, c.contentType
			if !strings.HasPrefix(label, "utf-16") {
				in = rxDeclared.ReplaceAll(in, nil)
			}
			if c.own {
				contentType = "text/html; charset=" + label
			}
			want, err := f.is.NewDecoder().Bytes(in)
			if err != nil {
				t.Fatal(f.path, err)
			}
			all[label]++
			if got := string(UTF8(in, contentType)); strings.TrimPrefix(string(want), "\uFEFF") == got {
				right[label]++
			} else {
				t.Logf("%s: %s is read as %v", c.name, f.path, Of(in, contentType))
			}
		}
		n, sum, table := 0, 0, ""
		for _, label := range slices.Sorted(maps.Keys(all)) {
			n, sum = n+right[label], sum+all[label]
			table += fmt.Sprintf("  %s %d/%d", label, right[label], all[label])
		}
		t.Logf("%s: %d of %d:%s", c.name, n, sum, table)
		if float64(n) < c.least*float64(sum) {
			t.Errorf("%s: %d of %d are right, not %.0f %%", c.name, n, sum, 100*c.least)
		}
	}
}
