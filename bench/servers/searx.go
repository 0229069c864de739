package servers

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// searxSettings are those of a searx whose only engine is a JSON service.
const searxSettings = `
general: { debug: false, instance_name: searx }
brand: {}
search: { safe_search: 0, autocomplete: "", default_lang: "", formats: [html, json], ban_time_on_fail: 1,
  max_ban_time_on_fail: 1 }
server: { port: %s, bind_address: 127.0.0.1, secret_key: "%d", base_url: false, image_proxy: false,
  http_protocol_version: "1.0", method: POST, default_http_headers: {} }
ui: { static_path: %s/static, templates_path: %s/templates, default_theme: oscar, default_locale: "",
  theme_args: { oscar_style: logicodev }, results_on_new_tab: false, advanced_search: false, query_in_title: false }
outgoing: { request_timeout: 3.0, useragent_suffix: "", pool_connections: 100, pool_maxsize: 10 }
engines: [{ name: local, engine: json_engine, shortcut: lo, categories: general, enable_http: true,
  timeout: 3.0, search_url: "%s/?q={query}", results_query: hits,
  url_query: url, title_query: title, content_query: text }]
locales: { en: English }
doi_resolvers: { oadoi.org: "https://oadoi.org/" }
default_doi_resolver: oadoi.org
`

// StartSearx runs searx, the predecessor of SearXNG with the same JSON: the
// package of Debian, which is installed where that can be done. Its only engine is
// the JSON service at engine, which is asked GET /?q=… and answers {"hits":
// [{"title", "url", "text"}]}. It gives its address.
func StartSearx(tb testing.TB, engine string) (url string) {
	tb.Helper()
	const python, files = "/usr/bin/python3", "/usr/share/python3-searx"
	for try := 0; ; try++ {
		if _, err := os.Stat(files); err == nil {
			break
		}
		if try == 1 {
			Missing(tb, "searx (python3-searx of Debian)")
		}
		install(tb, "python3-searx")
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(ln.Addr().String())
	_ = ln.Close()
	settings := filepath.Join(tb.TempDir(), "settings.yml")
	if err := os.WriteFile(settings, fmt.Appendf(nil, searxSettings, port, time.Now().UnixNano(), files, files, engine),
		0o600); err != nil {
		tb.Fatal(err)
	}
	c := exec.Command(python, "-m", "searx.webapp")
	c.Env = append(os.Environ(), "SEARX_SETTINGS_PATH="+settings)
	if err := c.Start(); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		_ = c.Process.Kill()
		_ = c.Wait()
	})
	url = "http://127.0.0.1:" + port
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if res, err := http.Get(url + "/config"); err == nil {
			_ = res.Body.Close()
			return url
		}
	}
	tb.Fatal("searx does not answer")
	return ""
}
