package media

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/minio/minio-go/v7"

	"farebox/bench/servers"
	"farebox/tests/rig"
)

// object is the bucket's object of a job.
func object(t *testing.T, s *servers.S3, id string) []byte {
	t.Helper()
	o, err := s.Client().GetObject(t.Context(), s.Bucket, "production/"+id, minio.GetObjectOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = o.Close() }()
	b, err := io.ReadAll(o)
	if err != nil && minio.ToErrorResponse(err).Code != "NoSuchKey" {
		t.Fatal(err)
	}
	return b
}

// The shipped example, with a real S3 server in the place of Amazon's.
func TestTracksWaitInABucket(t *testing.T) {
	t.Parallel()
	s, groups := bucket(t, "redirect: false")
	p := start(t, groups)
	j, link := p.track(t, p.key)
	want := object(t, s, j.ID)
	if len(want) < 1000 {
		t.Fatalf("the bucket has %d bytes", len(want))
	}
	p.NewAccount("b", "100")
	stranger := p.Key("b")

	t.Run("a link gives them to its holder, in one piece and in many", func(t *testing.T) {
		res, got := get(t, "GET", link)
		if res.StatusCode != 200 || !bytes.Equal(got, want) || res.Header.Get("Content-Type") != "audio/mpeg" {
			t.Errorf("%d, %d bytes of %s", res.StatusCode, len(got), res.Header.Get("Content-Type"))
		}
		if res, got := get(t, "HEAD", link); res.StatusCode != 200 || len(got) != 0 || res.ContentLength != int64(len(want)) {
			t.Errorf("HEAD: %d, length %d", res.StatusCode, res.ContentLength)
		}
		parts := make([][]byte, 8)
		var all sync.WaitGroup
		for i := range parts {
			all.Go(func() {
				from, to := i*len(want)/8, (i+1)*len(want)/8-1
				res, b := get(t, "GET", link, "Range", fmt.Sprintf("bytes=%d-%d", from, to), "If-Range", res.Header.Get("ETag"))
				parts[i] = b
				if r := res.Header.Get("Content-Range"); res.StatusCode != 206 || r != fmt.Sprintf("bytes %d-%d/%d", from, to, len(want)) {
					t.Errorf("part %d: %d %s", i, res.StatusCode, r)
				}
			})
		}
		if all.Wait(); !bytes.Equal(bytes.Join(parts, nil), want) {
			t.Error("the parts are not the whole")
		}
		if res, got := get(t, "GET", link, "Range", "bytes=5-9", "If-Range", `"other"`); res.StatusCode != 200 || !bytes.Equal(got, want) {
			t.Errorf("a part of a changed file: %d, %d bytes", res.StatusCode, len(got))
		}
		if res, _ := get(t, "GET", link, "Range", fmt.Sprintf("bytes=%d-", len(want))); res.StatusCode != 416 {
			t.Errorf("after the end: %d", res.StatusCode)
		}
	})
	t.Run("other accounts cannot read them", func(t *testing.T) {
		body := fmt.Sprintf(`{"model":"song","queue_id":%q}`, j.ID)
		for _, path := range []string{"/audio/retrieve", "/audio/complete"} {
			p.Must(404, "POST", path, stranger, body, nil)
		}
		other, theirs := p.track(t, stranger)
		for what, forged := range map[string]string{
			"the job of another link":   strings.Replace(link, j.ID, other.ID, 1),
			"the time of another link":  strings.Replace(link, "exp="+query(link, "exp"), "exp="+bump(query(link, "exp")), 1),
			"no signature":              link[:strings.Index(link, "&sig=")],
			"a signature of other jobs": strings.Replace(link, query(link, "sig"), query(theirs, "sig"), 1),
			"a link for one download":   strings.Replace(link, "sig=p", "sig=d", 1),
			"another case":              strings.Replace(link, j.ID, strings.ToUpper(j.ID), 1),
			"a path":                    strings.Replace(link, j.ID, "..%2f"+j.ID, 1),
		} {
			for _, method := range []string{"GET", "HEAD", "DELETE"} {
				if res, b := get(t, method, forged); res.StatusCode != 404 || bytes.Contains(b, want[:50]) {
					t.Errorf("%s of a link with %s: %d", method, what, res.StatusCode)
				}
			}
		}
		if res, got := get(t, "GET", link); res.StatusCode != 200 || !bytes.Equal(got, want) {
			t.Errorf("the link itself: %d", res.StatusCode)
		}
	})
	t.Run("a link that is revoked is gone, and its customer has the track all the same", func(t *testing.T) {
		j, link := p.track(t, p.key)
		if res, _ := get(t, "DELETE", link); res.StatusCode != 204 {
			t.Errorf("DELETE: %d", res.StatusCode)
		}
		for _, method := range []string{"GET", "HEAD", "DELETE"} {
			if res, _ := get(t, method, link); res.StatusCode != 410 {
				t.Errorf("%s: %d", method, res.StatusCode)
			}
		}
		status, header, got := p.Post("/audio/retrieve", p.key, fmt.Sprintf(`{"model":"song","queue_id":%q}`, j.ID))
		if status != 200 || header.Get("Content-Type") != "audio/mpeg" || !bytes.Equal(got, object(t, s, j.ID)) {
			t.Errorf("retrieve: %d %s, %d bytes", status, header.Get("Content-Type"), len(got))
		}
	})
	t.Run("a released job is deleted", func(t *testing.T) {
		p.Must(200, "POST", "/audio/complete", p.key, fmt.Sprintf(`{"model":"song","queue_id":%q}`, j.ID), nil)
		if left := object(t, s, j.ID); len(left) != 0 {
			t.Errorf("the bucket has %d bytes", len(left))
		}
		if res, _ := get(t, "GET", link); res.StatusCode != 410 {
			t.Errorf("its link: %d", res.StatusCode)
		}
	})
	if log := p.Log(); strings.Contains(log, s.SecretKey) || strings.Contains(log, "sig=") {
		t.Error("the log has the key of the bucket, or a link")
	}
	out, err := p.TryCLI("check", "--online")
	if err == nil && !bytes.Contains(out, []byte("keeps, hands out and deletes")) {
		t.Errorf("check --online says %s", out)
	}
}

func query(link, name string) string {
	u, _ := url.Parse(link)
	return u.Query().Get(name)
}

func bump(number string) string {
	n, _ := strconv.ParseInt(number, 10, 64)
	return strconv.FormatInt(n+1, 10)
}

// A client that is sent on to the bucket is given nothing but that one object, for some
// minutes.
func TestLinksLeadToTheBucket(t *testing.T) {
	t.Parallel()
	s, groups := bucket(t, "redirect: true")
	p := start(t, groups)
	j, link := p.track(t, p.key)
	want := object(t, s, j.ID)
	res, body := get(t, "GET", link, "Authorization", "Bearer "+p.key, "Cookie", "a=b")
	at, err := url.Parse(res.Header.Get("Location"))
	if err != nil || res.StatusCode != http.StatusFound || "http://"+at.Host != s.URL || len(body) != 0 && bytes.Contains(body, want[:50]) {
		t.Fatalf("%d %s", res.StatusCode, at)
	}
	q := at.Query()
	if strings.Contains(at.String(), s.SecretKey) || strings.Contains(at.String(), p.key) || at.User != nil ||
		q.Get("X-Amz-Expires") != "300" || q.Get("X-Amz-Signature") == "" || res.Header.Get("Cache-Control") != "private, no-store" {
		t.Errorf("%s %v", at, res.Header)
	}
	if res, got := get(t, "GET", at.String(), "Range", "bytes=10-99"); res.StatusCode != 206 || !bytes.Equal(got, want[10:100]) {
		t.Errorf("the bucket: %d, %d bytes", res.StatusCode, len(got))
	}
	other := "0"
	if j.ID[0] == '0' {
		other = "1"
	}
	for what, forged := range map[string]string{
		"another object": strings.Replace(at.String(), j.ID, other+j.ID[1:], 1),
		"more time":      strings.Replace(at.String(), "X-Amz-Expires=300", "X-Amz-Expires=3000", 1),
	} {
		if res, _ := get(t, "GET", forged); res.StatusCode != 403 {
			t.Errorf("%s: %d", what, res.StatusCode)
		}
	}
	for _, method := range []string{"PUT", "DELETE"} {
		if res, _ := get(t, method, at.String()); res.StatusCode != 403 {
			t.Errorf("%s: %d", method, res.StatusCode)
		}
	}
	// A link for one download never leads there: its end would not be seen.
	_, once := p.film(t, p.key)
	if res, got := get(t, "GET", once); res.StatusCode != 200 || len(got) < 1000 {
		t.Errorf("a link for one download: %d", res.StatusCode)
	}
	rig.Await(t, "it is used up", func() bool { res, _ := get(t, "GET", once); return res.StatusCode == http.StatusGone })
}
