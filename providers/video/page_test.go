package video

import (
	"context"
	"errors"
	"testing"

	"farebox/providers/fetch"
)

// "I gave the address of the page, as I would to a friend." A page's video is found by
// its declaration, and nothing is guessed.
func TestTheVideoOfAPage(t *testing.T) {
	t.Parallel()
	for page, want := range map[string]string{
		`<video src="a.mp4">`:                         "https://site.example/watch/a.mp4",
		`<video><source src="/b.webm" type="x"/>`:     "https://site.example/b.webm",
		`<source src="/b.webm"><p>not of a video`:     "",
		`<video></video><source src="/b.webm">`:       "",
		`<base href="//cdn.example/x/"><video src=c>`: "https://cdn.example/x/c",
		`<meta property="og:video" content="https://h/1"><meta property="og:video:secure_url" content="https://h/2">`: "https://h/2",
		`<meta name="twitter:player:stream" content="https://h/3"><meta property="og:video" content="https://h/1">`:   "https://h/3",
		`<video src="blob:https://h/x">`:         "",
		`<video src="javascript:alert(1)">`:      "",
		`<!-- <video src="a.mp4"> --><p>`:        "",
		`<script>"<video src='a.mp4'>"</script>`: "",
		`<p>nothing`:                             "",
	} {
		got := shown([]byte("<!doctype html><html>"+page), "https://site.example/watch/?v=1")
		if got != want {
			t.Errorf("%s shows %q, not %q", page, got, want)
		}
	}
}

// web gives the text at an address.
type web map[string]string

func (w web) Part(_ context.Context, link string, _, length int64) (fetch.Part, error) {
	b, ok := w[link]
	if !ok {
		return fetch.Part{}, errors.New("404")
	}
	return fetch.Part{Bytes: []byte(b)[:min(int64(len(b)), length)], Size: int64(len(b))}, nil
}

func (w web) Final(_ context.Context, link string) (string, error) { return link, nil }

// A page that leads to a page leads nowhere: one step is taken, and no more.
func TestOneStepFromAPageIsTaken(t *testing.T) {
	t.Parallel()
	w := web{"https://h/file": "\x00\x00\x00\x08moov", "https://h/page": `<html><video src=file>`,
		"https://h/loop": `<html><video src=loop>`, "https://h/empty": `<html>`}
	for link, want := range map[string]error{"https://h/file": nil, "https://h/page": nil, "https://h/loop": ErrNoFilm,
		"https://h/empty": ErrNoFilm} {
		file, err := Find(t.Context(), w, link, 100)
		if !errors.Is(err, want) || err == nil && string(file) != w["https://h/file"] {
			t.Errorf("%s: %q, %v", link, file, err)
		}
	}
}

// FuzzPage: whatever a page has, it shows nothing but links.
func FuzzPage(f *testing.F) {
	f.Add([]byte(`<html><base href="//h/"><video><source src="x"></video><meta property="og:video" content="y">`))
	f.Fuzz(func(t *testing.T, page []byte) {
		if link := shown(page, "https://site.example/"); link != "" && link[:4] != "http" {
			t.Errorf("%q", link)
		}
	})
}
