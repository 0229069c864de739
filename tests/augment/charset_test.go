package augment

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/japanese"
	"golang.org/x/text/encoding/korean"
	"golang.org/x/text/encoding/simplifiedchinese"
	"golang.org/x/text/encoding/traditionalchinese"
	"golang.org/x/text/encoding/unicode"
)

// "Pages that name no charset, or a wrong one, came out as mojibake, and were charged."
func TestPagesInAnyCharsetAreRead(t *testing.T) {
	t.Parallel()
	const russian = "Все люди рождаются свободными и равными в своём достоинстве и правах."
	charsets := []struct {
		name string
		e    encoding.Encoding
		text string
	}{
		{"gbk", simplifiedchinese.GBK, "人人生而自由，在尊严和权利上一律平等。他们赋有理性和良心，并应以兄弟关系的精神相对待。"},
		{"big5", traditionalchinese.Big5, "人人生而自由，在尊嚴和權利上一律平等。他們賦有理性和良心，並應以兄弟關係的精神相對待。"},
		{"shift_jis", japanese.ShiftJIS, "すべての人間は、生まれながらにして自由であり、かつ、尊厳と権利とについて平等である。"},
		{"euc-jp", japanese.EUCJP, "すべての人間は、生まれながらにして自由であり、かつ、尊厳と権利とについて平等である。"},
		{"iso-2022-jp", japanese.ISO2022JP, "すべての人間は、生まれながらにして自由であり、かつ、尊厳と権利とについて平等である。"},
		{"euc-kr", korean.EUCKR, "모든 인간은 태어날 때부터 자유로우며 그 존엄과 권리에 있어 동등하다."},
		{"windows-1251", charmap.Windows1251, russian},
		{"koi8-r", charmap.KOI8R, russian},
		{"windows-1252", charmap.Windows1252, "Alle Menschen sind frei und gleich an Würde und Rechten geboren, und müssen “so” behandelt werden."},
		{"utf-16", unicode.UTF16(unicode.LittleEndian, unicode.UseBOM), russian},
		{"utf-16le", unicode.UTF16(unicode.LittleEndian, unicode.IgnoreBOM), russian},
		{"utf-16be", unicode.UTF16(unicode.BigEndian, unicode.IgnoreBOM), "人人生而自由，在尊严和权利上一律平等。"},
	}
	pages := map[string][]byte{}
	for _, c := range charsets {
		page := "<!doctype html><html><head><title>" + c.text + "</title><script>" + strings.Repeat("var x = 1;", 300) +
			"</script></head><body><nav><a href=/>Home</a></nav><article>" + strings.Repeat("<p>"+c.text+"</p>", 5) +
			"</article><footer>Imprint</footer></body></html>"
		coded, err := c.e.NewEncoder().Bytes([]byte(page))
		if err != nil {
			t.Fatal(err)
		}
		pages[c.name] = coded
	}
	site := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", r.URL.Query().Get("type"))
		if page := pages[strings.TrimPrefix(r.URL.Path, "/")]; page != nil {
			_, _ = w.Write(page)
			return
		}
		w.WriteHeader(http.StatusNotFound)
	})
	s := start(t, settings+"augment: { scrape: { timeout: 9s, per_host: 64, rate: { rpm: 0 } } }\n", "10")
	sold := 0
	for _, c := range charsets {
		for name, said := range map[string]string{"undeclared": "text/html", "as plain text": "text/plain", "declared": "text/html; charset=" + c.name,
			"declared as UTF-8": "text/html; charset=utf-8", "declared as ISO-8859-1": "text/html; charset=iso-8859-1",
			"declared as nonsense": "text/html; charset=" + strings.Repeat("x", 900)} {
			if strings.HasPrefix(c.name, "utf-16") && name == "declared" {
				said = "text/html; charset=utf-16"
			}
			status, _, answer := s.ask(t, scraping, `{"url":`+quoted(site.URL+"/"+c.name+"?type="+strings.NewReplacer(
				";", "%3B", " ", "%20", "=", "%3D").Replace(said))+`}`)
			var got struct{ Content string }
			if err := json.Unmarshal([]byte(answer), &got); status != 200 || err != nil {
				t.Errorf("%s, %s: %d %.200s", c.name, name, status, answer)
				continue
			}
			if sold++; strings.Count(got.Content, c.text) != 6 {
				t.Errorf("%s, %s: %.300s", c.name, name, got.Content)
			}
		}
	}
	s.charged(t, sold)
	t.Run("bytes other than text, and a name of 1 MB", func(t *testing.T) {
		bad := serve(t, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			if r.URL.Path == "/name" {
				_, _ = io.WriteString(w, "<meta charset="+strings.Repeat("x", 1<<20)+">"+article("<p>caf\xe9</p>"))
				return
			}
			_, _ = io.WriteString(w, article("<p>caf\xe9 \x81\xff\xfe\x00</p>"))
		})
		for _, path := range []string{"/name", "/bytes"} {
			status, _, answer := s.ask(t, scraping, `{"url":`+quoted(bad.URL+path)+`}`)
			if status != 200 || !strings.Contains(answer, "The first paragraph goes on") || path == "/name" && !strings.Contains(answer, "café") {
				t.Errorf("%s: %d %.300s", path, status, answer)
			}
		}
		s.charged(t, 2)
	})
	s.CLI("verify")
}
