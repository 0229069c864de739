package video

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"golang.org/x/net/html"

	"farebox/providers/fetch"
)

// ErrNoFilm is a page that names no file of a video. Sites that keep those from
// everything but their own players are such.
var ErrNoFilm = errors.New("the page names no video file")

// maxPage is how much of a page is looked through.
const maxPage = 2 << 20

// Find gives the file of a video, of at most most bytes: the file of a link, or the video
// that the page there names. The error is a *fetch.Error, ErrNoFilm or ctx's.
func Find(ctx context.Context, from Fetcher, link string, most int64) ([]byte, error) {
	file, err := whole(ctx, from, link, most)
	if err != nil || !isPage(file) {
		return file, err
	}
	if link = shown(file[:min(len(file), maxPage)], link); link == "" {
		return nil, ErrNoFilm
	}
	file, err = whole(ctx, from, link, most)
	if err == nil && isPage(file) {
		return nil, ErrNoFilm // a player, most often
	}
	return file, err
}

// whole reads all that a link leads to.
func whole(ctx context.Context, from Fetcher, link string, most int64) ([]byte, error) {
	all, err := from.Part(ctx, link, 0, most+1)
	if err == nil && int64(len(all.Bytes)) > most {
		err = &fetch.Error{Reason: fetch.TooLarge}
	}
	return all.Bytes, err
}

func isPage(b []byte) bool { return strings.HasPrefix(http.DetectContentType(b), "text/html") }

// metas are the names of the tags in which pages name their video, the best first.
var metas = []string{"twitter:player:stream", "og:video:secure_url", "og:video:url", "og:video"}

// shown is the link to the video of a page: that of its player, or of its tags for sites
// that embed it. Empty if absent.
func shown(page []byte, at string) string {
	base, err := url.Parse(at)
	if err != nil {
		return ""
	}
	reported := map[string]string{}
	z := html.NewTokenizer(bytes.NewReader(page))
	z.SetMaxBuf(256 << 10)
	for inside := false; ; {
		kind := z.Next()
		if kind == html.ErrorToken {
			break
		}
		if kind == html.EndTagToken {
			if name, _ := z.TagName(); string(name) == "video" {
				inside = false
			}
			continue
		}
		if kind != html.StartTagToken && kind != html.SelfClosingTagToken {
			continue
		}
		name, more := z.TagName()
		tag, values := string(name), map[string]string{}
		for more {
			var key, value []byte
			key, value, more = z.TagAttr()
			values[string(key)] = strings.TrimSpace(string(value))
		}
		switch {
		case tag == "base" && values["href"] != "":
			if u, err := base.Parse(values["href"]); err == nil {
				base = u
			}
		case tag == "video", tag == "source" && inside:
			inside = true
			if src := values["src"]; src != "" {
				return resolved(base, src)
			}
		case tag == "meta" && values["content"] != "":
			name := values["property"] + values["name"] // pages have one of both
			if slices.Contains(metas, name) && reported[name] == "" {
				reported[name] = values["content"]
			}
		}
	}
	for _, name := range metas {
		if link := reported[name]; link != "" {
			return resolved(base, link)
		}
	}
	return ""
}

func resolved(base *url.URL, link string) string {
	u, err := base.Parse(link)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" {
		return ""
	}
	return u.String()
}
