package video

import (
	"crypto/sha256"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"farebox/tests/rig"
)

// Links that orders of a model give: for one download, for a day.
func TestLinksForOneDownload(t *testing.T) {
	t.Parallel()
	s := start(t, "", "", "")
	key := s.account("links")
	order := func() (queued, string) {
		q := s.queue(t, key, `{"model":"linked","prompt":"[[sim polls=2]] x","duration":"5s"}`)
		u, err := url.Parse(q.Link)
		if err != nil || u.Host != "films.example" || u.Scheme != "https" || !strings.Contains(u.Path, q.ID) {
			t.Fatalf("the link is %q", q.Link)
		}
		exp, err := strconv.ParseInt(u.Query().Get("exp"), 10, 64)
		if left := time.Until(time.Unix(exp, 0)); err != nil || left > 24*time.Hour+time.Minute || left < 23*time.Hour {
			t.Errorf("the link is good for %s", left)
		}
		return q, s.Origin + u.RequestURI()
	}
	completed := func(q queued) {
		status, _, body := s.await(t, key, "linked", q.ID, "")
		if !strings.HasPrefix(string(body), `{"status":"completed",`) || status != 200 || strings.Contains(string(body), "url") {
			t.Errorf("a job whose media are fetched by link is %d %.200s", status, body)
		}
	}
	t.Run("one whole download", func(t *testing.T) {
		t.Parallel()
		q, link := order()
		if status, header, _ := get(t, "GET", link, ""); status != 404 || header.Get("Retry-After") == "" {
			t.Errorf("before it is made it is %d", status)
		}
		completed(q)
		if status, header, body := get(t, "HEAD", link, ""); status != 200 || len(body) != 0 ||
			header.Get("Content-Type") != "video/mp4" {
			t.Errorf("HEAD is %d %v", status, header)
		}
		// Parts of it first, as players do, and all of it once.
		_, header, first := get(t, "GET", link, "bytes=0-99")
		status, _, rest := get(t, "GET", link, "bytes=100-")
		if status != 206 || len(first) != 100 || header.Get("Content-Range") != "bytes 0-99/"+strconv.Itoa(100+len(rest)) {
			t.Errorf("parts are %d %v, of %d and %d bytes", status, header, len(first), len(rest))
		}
		rig.Await(t, "it is used up", func() bool {
			status, _, _ := get(t, "GET", link, "")
			return status == http.StatusGone
		})
		// Its customer has the state still, and lets it go.
		completed(q)
		s.Must(200, "POST", "/video/complete", key, `{"model":"linked","queue_id":"`+q.ID+`"}`, nil)
		s.Must(404, "POST", "/video/retrieve", key, `{"model":"linked","queue_id":"`+q.ID+`"}`, nil)
	})
	t.Run("a link that is revoked", func(t *testing.T) {
		t.Parallel()
		q, link := order()
		completed(q)
		if status, _, _ := get(t, "DELETE", link, ""); status != 204 {
			t.Errorf("DELETE is %d", status)
		}
		for _, method := range []string{"GET", "HEAD", "DELETE"} {
			if status, _, _ := get(t, method, link, ""); status != http.StatusGone {
				t.Errorf("%s afterwards is %d", method, status)
			}
		}
		completed(q)
	})
	t.Run("a link that is another's or made up", func(t *testing.T) {
		t.Parallel()
		q, link := order()
		_, other := order()
		completed(q)
		id := strings.Split(strings.TrimPrefix(other, s.Origin+"/api/v1/media/"), "?")[0]
		later := prolonged(link, 3600)
		for _, forged := range []string{strings.Replace(link, q.ID, id, 1), later, strings.Split(link, "?")[0]} {
			if status, _, _ := get(t, "GET", forged, ""); status != 404 {
				t.Errorf("%s is %d", forged, status)
			}
		}
		status, header, body := get(t, "GET", link, "")
		if status != 200 || header.Get("Cache-Control") != "private, no-store" ||
			!strings.HasPrefix(header.Get("Content-Disposition"), "attachment") || len(body) < 1000 {
			t.Errorf("the true one is %d %v, %x", status, header, sha256.Sum256(body))
		}
	})
}

// prolonged is a link with a later end.
func prolonged(link string, seconds int64) string {
	u, _ := url.Parse(link)
	exp, _ := strconv.ParseInt(u.Query().Get("exp"), 10, 64)
	return strings.Replace(link, "exp="+strconv.FormatInt(exp, 10), "exp="+strconv.FormatInt(exp+seconds, 10), 1)
}

// get asks for a link, without a key.
func get(t *testing.T, method, link, part string) (status int, header http.Header, body []byte) {
	t.Helper()
	req, err := http.NewRequest(method, link, nil)
	if err != nil {
		t.Fatal(err)
	}
	if part != "" {
		req.Header.Set("Range", part)
	}
	res, err := rig.Client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	if body, err = io.ReadAll(res.Body); err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, res.Header, body
}
