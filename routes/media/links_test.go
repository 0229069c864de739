package media

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"farebox/billing/store"
	"farebox/config"
	"farebox/providers/media"
	"farebox/routes"
	"farebox/routes/routestest"
)

const configText = `
models: [{ id: chat, context_tokens: 8192, price: { input: 1, output: 2 }, targets: [{ upstream: up }] }]
upstreams: [{ name: up, base_url: "http://ADDR/v1", key: k }]
media: { links: true, link_requests: %d }
`

const jobID = "0b6e4f0e-6c0f-4a53-9d5f-9c7e6a6f8d21"

// stage is a gateway with one finished track.
type stage struct {
	*routestest.Rig
	t      *testing.T
	of     *Capability
	store  media.Store
	row    *store.JobRow
	bytes  []byte
	client *http.Client
}

func newStage(t *testing.T, size int) *stage { return newStageWith(t, size, 10_000) }

func newStageWith(t *testing.T, size, requests int) *stage {
	t.Helper()
	t.Parallel()
	cfg := &config.Config{Media: config.Default[config.Media]()}
	cfg.Media.Dir, cfg.Media.FreeBytes = t.TempDir(), 0
	kept, err := media.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	s := &stage{t: t, of: New(kept), store: kept, client: &http.Client{Transport: &http.Transport{}}}
	s.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	t.Cleanup(s.client.CloseIdleConnections)
	s.Rig = routestest.Start(t, fmt.Sprintf(configText, requests), "127.0.0.1:1", s.of)
	s.bytes = make([]byte, size)
	for i := range s.bytes {
		s.bytes[i] = byte(i * 7)
	}
	copy(s.bytes, "ID3\x04\x00\x00\x00\x00\x00\x00")
	if _, err := kept.Put(t.Context(), jobID, bytes.NewReader(s.bytes), "audio/mpeg", 1<<30); err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	s.row = &store.JobRow{ID: jobID, Kind: "music", Model: "m", Account: 1, Key: 1, Node: 1, Hold: 77, Owner: 1, Epoch: 1,
		State: store.JobSubmitting, CreatedUs: now.UnixMicro()}
	if _, err := s.Ledger.Jobs().AddJob(s.row, 0); err != nil {
		t.Fatal(err)
	}
	s.row.State, s.row.MediaType, s.row.MediaBytes = store.JobCompleted, "audio/mpeg", int64(size)
	s.row.EndedUs, s.row.ExpiresUs = now.UnixMicro(), now.Add(time.Hour).UnixMicro()
	s.change(store.JobSubmitting)
	return s
}

func (s *stage) change(from store.JobState) {
	s.t.Helper()
	if ok, err := s.Ledger.Jobs().UpdateJob(s.row, from); err != nil || !ok {
		s.t.Fatalf("the row cannot be changed: %t %v", ok, err)
	}
}

func (s *stage) link(kind media.LinkKind, good time.Duration) string {
	return "http://" + s.Address + routes.Prefix + routes.MediaPath + jobID + "?" +
		s.of.links.Query(jobID, kind, time.Now().Add(good))
}

// ask returns an answer with as much of its body as it got.
func (s *stage) ask(method, link string, header ...string) (*http.Response, []byte) {
	s.t.Helper()
	req, err := http.NewRequest(method, link, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	res, err := s.client.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	b, _ := io.ReadAll(res.Body)
	return res, b
}

func TestALinkNeedsNoKeyAndShowsNoPage(t *testing.T) {
	s := newStage(t, 300_000)
	res, got := s.ask("GET", s.link(media.Plain, time.Hour))
	if res.StatusCode != 200 || !bytes.Equal(got, s.bytes) || res.ContentLength != 300_000 {
		t.Fatalf("status %d, %d bytes of %d", res.StatusCode, len(got), res.ContentLength)
	}
	for name, want := range map[string]string{
		"Content-Type": "audio/mpeg", "Accept-Ranges": "bytes", "X-Content-Type-Options": "nosniff",
		"Cache-Control": "private", "Content-Security-Policy": "default-src 'none'; sandbox",
		"Content-Disposition": `inline; filename="music-0b6e4f0e.mp3"`, "Etag": `"` + jobID + `"`,
	} {
		if res.Header.Get(name) != want {
			t.Errorf("%s is %q", name, res.Header.Get(name))
		}
	}
	res, got = s.ask("HEAD", s.link(media.Plain, time.Hour))
	if res.StatusCode != 200 || len(got) != 0 || res.ContentLength != 300_000 {
		t.Errorf("HEAD: status %d, %d bytes, length %d", res.StatusCode, len(got), res.ContentLength)
	}
	if res, _ = s.ask("GET", s.link(media.Plain, time.Hour), "If-None-Match", `"`+jobID+`"`); res.StatusCode != 304 {
		t.Errorf("a file that the client has already: status %d", res.StatusCode)
	}
	// A row whose media type differs from the stored file cannot make it a page.
	s.row.MediaType = "text/html"
	s.change(store.JobCompleted)
	res, _ = s.ask("GET", s.link(media.Plain, time.Hour))
	if res.Header.Get("Content-Type") != "application/octet-stream" ||
		!strings.HasPrefix(res.Header.Get("Content-Disposition"), "attachment") {
		t.Errorf("a page: %v", res.Header)
	}
}

func TestRangesOfALink(t *testing.T) {
	s := newStage(t, 1000)
	link := s.link(media.Plain, time.Hour)
	for _, one := range []struct {
		header         string
		status         int
		from, to       int // of the bytes
		content, again string
	}{
		{header: "bytes=0-0", status: 206, from: 0, to: 1, content: "bytes 0-0/1000"},
		{header: "bytes=10-19", status: 206, from: 10, to: 20, content: "bytes 10-19/1000"},
		{header: "Bytes= 10 - 19 ", status: 206, from: 10, to: 20, content: "bytes 10-19/1000"},
		{header: "bytes=990-", status: 206, from: 990, to: 1000, content: "bytes 990-999/1000"},
		{header: "bytes=-5", status: 206, from: 995, to: 1000, content: "bytes 995-999/1000"},
		{header: "bytes=-5000", status: 206, from: 0, to: 1000, content: "bytes 0-999/1000"},
		{header: "bytes=500-99999999999999999999", status: 206, from: 500, to: 1000, content: "bytes 500-999/1000"},
		{header: "bytes=1000-", status: 416, content: "bytes */1000"},
		{header: "bytes=-0", status: 416, content: "bytes */1000"},
		{header: "bytes=5-4", status: 200, to: 1000},
		{header: "bytes=0-1,3-4", status: 200, to: 1000},
		{header: "items=0-1", status: 200, to: 1000},
		{header: "bytes=", status: 200, to: 1000},
		{header: "bytes=a-b", status: 200, to: 1000},
		{header: "bytes=10-19", again: `"` + jobID + `"`, status: 206, from: 10, to: 20, content: "bytes 10-19/1000"},
		{header: "bytes=10-19", again: `"another"`, status: 200, to: 1000},
		{header: "bytes=10-19", again: "Mon, 02 Jan 2006 15:04:05 GMT", status: 200, to: 1000},
	} {
		headers := []string{"Range", one.header}
		if one.again != "" {
			headers = append(headers, "If-Range", one.again)
		}
		res, got := s.ask("GET", link, headers...)
		if res.StatusCode != one.status || res.Header.Get("Content-Range") != one.content {
			t.Errorf("%s %s: status %d, %q", one.header, one.again, res.StatusCode, res.Header.Get("Content-Range"))
		}
		if one.status < 300 && !bytes.Equal(got, s.bytes[one.from:one.to]) {
			t.Errorf("%s %s: %d bytes that are not those", one.header, one.again, len(got))
		}
	}
}

// Forged links and missing files get the same answer, so guesses reveal nothing.
func TestForgedLinksAreNotThere(t *testing.T) {
	s := newStage(t, 1000)
	good := s.link(media.Plain, time.Hour)
	_, before := s.ask("GET", strings.Replace(good, "/media/0b", "/media/1b", 1))
	before = bytes.ReplaceAll(before, []byte("x"), nil)
	exp := good[strings.Index(good, "exp=")+4 : strings.Index(good, "&sig=")]
	sig := good[strings.Index(good, "&sig=")+5:]
	base := good[:strings.Index(good, "?")]
	flipped, later := []byte(sig), []byte(exp)
	flipped[10] ^= 1
	later[len(later)-1] ^= 1 // another digit, whichever it was
	other := media.NewLinks(bytes.Repeat([]byte{1}, 32))
	for name, link := range map[string]string{
		"no signature":         base,
		"another second":       base + "?exp=" + string(later) + "&sig=" + sig,
		"never":                base + "?exp=99999999999999999999&sig=" + sig,
		"a leading zero":       base + "?exp=0" + exp + "&sig=" + sig,
		"a signed number":      base + "?exp=%2B" + exp + "&sig=" + sig,
		"another kind":         base + "?exp=" + exp + "&sig=d" + sig[1:],
		"a flipped bit":        base + "?exp=" + exp + "&sig=" + string(flipped),
		"longer":               base + "?exp=" + exp + "&sig=" + sig + "A",
		"shorter":              base + "?exp=" + exp + "&sig=" + sig[:len(sig)-1],
		"of another job":       strings.Replace(good, "/media/0b", "/media/1b", 1),
		"in capitals":          strings.Replace(good, "/media/0b6e", "/media/0B6E", 1),
		"with another key":     base + "?" + other.Query(jobID, media.Plain, time.Now().Add(time.Hour)),
		"out of the directory": strings.Replace(good, jobID, "..%2f..%2fledger.db", 1),
	} {
		for _, method := range []string{"GET", "DELETE"} {
			res, body := s.ask(method, link)
			if res.StatusCode != 404 || !bytes.Equal(bytes.ReplaceAll(body, []byte("x"), nil), before) {
				t.Errorf("%s %s: status %d, %s", method, name, res.StatusCode, body)
			}
		}
	}
	if res, _ := s.ask("GET", good); res.StatusCode != 200 {
		t.Errorf("the good one: status %d", res.StatusCode)
	}
}

func TestLinksThatAreOverAreGone(t *testing.T) {
	s := newStage(t, 1000)
	gone := func(what, link string) {
		t.Helper()
		for _, method := range []string{"GET", "HEAD", "DELETE"} {
			res, _ := s.ask(method, link)
			if res.StatusCode != 410 || res.Header.Get("Content-Disposition") != "" {
				t.Errorf("%s of a link that %s: status %d", method, what, res.StatusCode)
			}
		}
	}
	gone("has expired", s.link(media.Plain, -time.Second))
	link := s.link(media.Plain, time.Hour)
	if res, _ := s.ask("DELETE", link); res.StatusCode != 204 {
		t.Errorf("DELETE: status %d", res.StatusCode)
	}
	gone("was revoked", link)
	gone("is of the same job", s.link(media.Download, time.Hour))
}

func TestALinkToUnfinishedMedia(t *testing.T) {
	s := newStage(t, 1000)
	s.row.ID, s.row.Hold = "1b6e4f0e-6c0f-4a53-9d5f-9c7e6a6f8d21", 78
	s.row.State, s.row.MediaType = store.JobSubmitting, ""
	if _, err := s.Ledger.Jobs().AddJob(s.row, 0); err != nil {
		t.Fatal(err)
	}
	link := strings.Replace(s.link(media.Plain, time.Hour), jobID, s.row.ID, 1)
	link = link[:strings.Index(link, "?")+1] + s.of.links.Query(s.row.ID, media.Plain, time.Now().Add(time.Hour))
	if res, body := s.ask("GET", link); res.StatusCode != 404 || res.Header.Get("Retry-After") == "" {
		t.Errorf("status %d, %s", res.StatusCode, body)
	}
	s.row.State = store.JobFailed
	s.change(store.JobSubmitting)
	if res, _ := s.ask("GET", link); res.StatusCode != 410 {
		t.Errorf("of a failed one: status %d", res.StatusCode)
	}
}

// A client whose connection broke still gets its video, and no client gets it twice.
func TestOneFullDownload(t *testing.T) {
	t.Run("in one piece", func(t *testing.T) {
		s := newStage(t, 100_000)
		link := s.link(media.Download, time.Hour)
		if res, _ := s.ask("HEAD", link); res.StatusCode != 200 {
			t.Errorf("HEAD: status %d", res.StatusCode)
		}
		res, got := s.ask("GET", link)
		if res.StatusCode != 200 || !bytes.Equal(got, s.bytes) ||
			!strings.HasPrefix(res.Header.Get("Content-Disposition"), "attachment") {
			t.Errorf("status %d, %d bytes, %v", res.StatusCode, len(got), res.Header)
		}
		s.awaitRevoked()
		if res, _ := s.ask("GET", link); res.StatusCode != 410 {
			t.Errorf("the second time: status %d", res.StatusCode)
		}
	})
	t.Run("after it broke off", func(t *testing.T) {
		s := newStage(t, 40<<20)
		link := s.link(media.Download, time.Hour)
		s.breakOff(link, 5<<20)
		// The client lost the rest of the bytes that the kernel took, and asks for them
		// again.
		res, got := s.ask("GET", link, "Range", "bytes=5242880-")
		for i := 0; res.StatusCode == 429 && i < 3000; i++ { // until the gateway has noticed
			time.Sleep(20 * time.Millisecond)
			res, got = s.ask("GET", link, "Range", "bytes=5242880-")
		}
		if res.StatusCode != 206 || !bytes.Equal(got, s.bytes[5<<20:]) {
			t.Errorf("the rest: status %d, %d bytes", res.StatusCode, len(got))
		}
		s.awaitRevoked()
	})
	t.Run("in ranges of any order", func(t *testing.T) {
		s := newStage(t, 1000)
		link := s.link(media.Download, time.Hour)
		for _, r := range []string{"500-999", "0-99", "50-299", "400-499"} {
			if res, _ := s.ask("GET", link, "Range", "bytes="+r); res.StatusCode != 206 {
				t.Fatalf("%s: status %d", r, res.StatusCode)
			}
		}
		if row, err := s.Ledger.Jobs().Job(jobID); err != nil || row.LinksUs != 0 {
			t.Fatalf("used up before its last byte: %v", err)
		}
		if res, _ := s.ask("GET", link, "Range", "bytes=300-399"); res.StatusCode != 206 {
			t.Fatalf("status %d", res.StatusCode)
		}
		s.awaitRevoked()
	})
	t.Run("all but the last byte, again and again", func(t *testing.T) {
		s := newStage(t, 1000)
		link, n := s.link(media.Download, time.Hour), 0
		for res, _ := s.ask("GET", link, "Range", "bytes=0-998"); res.StatusCode == 206; n++ {
			res, _ = s.ask("GET", link, "Range", "bytes=0-998")
		}
		if n > mostTimes+1 {
			t.Errorf("it was had %d times", n)
		}
		s.awaitRevoked()
	})
}

// awaitRevoked waits until the link is used up, after its last byte.
func (s *stage) awaitRevoked() {
	s.t.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if row, err := s.Ledger.Jobs().Job(jobID); err == nil && row.LinksUs != 0 {
			return
		}
	}
	s.t.Error("the link is not used up")
}

// breakOff reads some of an answer and disconnects.
func (s *stage) breakOff(link string, n int64) {
	s.t.Helper()
	c, err := net.Dial("tcp", s.Address)
	if err != nil {
		s.t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	path := strings.TrimPrefix(link, "http://"+s.Address)
	if _, err := fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: x\r\n\r\n", path); err != nil {
		s.t.Fatal(err)
	}
	if _, err := io.CopyN(io.Discard, c, n); err != nil {
		s.t.Fatal(err)
	}
}

func TestALinkThatIsAskedTooOften(t *testing.T) {
	s := newStageWith(t, 1000, 3)
	link, last := s.link(media.Plain, time.Hour), 0
	for range 8 { // a minute may begin in between
		res, _ := s.ask("GET", link)
		if last = res.StatusCode; last == 429 && res.Header.Get("Retry-After") == "" {
			t.Error("it is not said when to come again")
		}
	}
	if last != 429 {
		t.Errorf("the eighth time: status %d", last)
	}
	// Forged links do not use up the good one's allowance.
	other := newUses()
	if len(s.of.uses.list) != 1 || other.admit("x", time.Now(), time.Now(), 1) != 0 {
		t.Errorf("%d links are remembered", len(s.of.uses.list))
	}
}
