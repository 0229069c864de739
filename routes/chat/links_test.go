package chat

import (
	"net/netip"
	"net/url"
	"strings"
	"testing"

	"farebox/providers/fetch"
)

func TestLinksIntoTheOperatorsNetworkAreNotPublic(t *testing.T) {
	for _, link := range []string{
		"https://example.com/a.png", "http://example.com:8080/a?b=c#d", "HTTPS://Example.COM./x",
		"https://8.8.8.8/x.png", "https://[2606:4700:4700::1111]/x",
		"https://user-content.example.co.uk", `https:\/\/example.com\/a.png`, "data:image/png;base64,aGk=",
		`d\u0061ta:,`, "DATA:,x",
	} {
		if !allowedLink([]byte(link), "public") {
			t.Errorf("%s is refused", link)
		}
	}
	for _, link := range []string{
		"file:///etc/passwd", "/etc/passwd", "etc/passwd", "ftp://example.com/x", "gs://bucket/x", "//example.com/x",
		"https:/example.com", "https:example.com", "javascript:1", "",
		"http://127.0.0.1/x", "http://127.1/x", "http://2130706433/", "http://0x7f000001/", "http://0x7f.1/",
		"http://0177.0.0.1/", "http://localhost/x", "http://localhost.:80/", "http://x.localhost",
		"http://169.254.169.254/latest/meta-data", "http://[fe80::1]/", "http://[::1]/", "http://[::ffff:127.0.0.1]/",
		"http://[::ffff:a9fe:a9fe]/", "http://[64:ff9b::7f00:1]/", "http://10.0.0.9/", "http://192.168.1.1",
		"http://172.16.0.1", "http://100.100.100.200/", "http://168.63.129.16/",
		"http://metadata.google.internal/computeMetadata", "http://metadata/", "http://router",
		"http://printer.local/x", "http://db.svc.cluster.local", "http://redis.default.svc", "http://x.home.arpa",
		"http://127.0.0.1.nip.io/",
		"http://example.com@127.0.0.1/", "http://example.com:80@127.0.0.1/", `http://example.com\\@127.0.0.1/`,
		"http://127.0.0.1#@example.com/", "http://127.0.0.1?x@example.com", "http://exa mple.com/",
		"http://ex%61mple.com/",
		"http://[fe80::1%25eth0]/", "http://example.com:0/", "http://example.com:99999/", "http://.example.com/",
		"http://example..com/", "http://\u0131\u2024example.com/", "http:///x", "http://example.com\\u0000.local/",
		`http:\/\/10.0.0.1/`, "unix:/run/docker.sock", "http+unix://x",
		"https://example.com/" + strings.Repeat("x", maxPassedLink),
	} {
		if allowedLink([]byte(link), "public") {
			t.Errorf("%s passes", link)
		}
	}
	if allowedLink([]byte("https://example.com/a.png"), "none") || !allowedLink([]byte("data:,x"), "none") {
		t.Error("policy none: a web link passes, or a data URL is refused")
	}
}

// FuzzLinks compares our judgement with Go's parser: a link that passes leads to a public
// host there, too.
func FuzzLinks(f *testing.F) {
	for _, s := range []string{"https://example.com/x", "http://127.0.0.1", "http://[::1]:80", "http://a@b",
		"http://1.1.1.1:443/?", "HTTP://0x7f.1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, link string) {
		if !publicLink(link) {
			return
		}
		u, err := url.Parse(link)
		if err != nil {
			if strings.Contains(link, "%") || strings.Contains(link, ":") {
				return // broken escapes in the path, which no host is read from
			}
			t.Fatalf("%q passes and is not a URL: %v", link, err)
		}
		if ip, err := netip.ParseAddr(u.Hostname()); u.User != nil || u.Scheme != "http" && u.Scheme != "https" ||
			err == nil && !fetch.Public(ip) || err != nil && !strings.Contains(u.Hostname(), ".") {
			t.Fatalf("%q passes, for %q", link, u.Host)
		}
	})
}
