package characters

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"farebox/tests/rig"
)

// cast are four characters of which no two are the same in anything.
func cast() map[string]string {
	recent := time.Now().Add(-72 * time.Hour).UTC().Format(time.RFC3339)
	return map[string]string{
		"ada.yaml": character("Ada", "Be exact.", "featured: true\nwebEnabled: true\n"+
			"description: First of programmers\n"+
			"tags: [math, science fiction]\ncategories: [education]\nauthor: ann\nshareUrl: https://example.org/ada\n"+
			"createdAt: 2026-10-01T10:00:00Z\nupdatedAt: 2026-11-01T10:00:00Z\n"),
		"bo.yaml": "name: Bo Über\nmodelId: other/model\nadult: true\nprompt: Be rude.\ntags: [fun]\n" +
			"categories: [roleplay]\ndescription: Has dinner at nine\nauthor: ann\ncreatedAt: 2026-09-01T10:00:00Z\n",
		"cy.yaml": character("Cy", "Be quick.", "pro: true\ntags: [Fun, Space]\ncategories: [Roleplay]\nauthor: bob\n"+
			"createdAt: "+recent+"\n"),
		"dee.yaml": character("Dee", "Be silent.", "createdAt: 2020-01-01T00:00:00Z\n"),
	}
}

func TestCharactersAreListed(t *testing.T) {
	t.Parallel()
	h := open(t, "", cast())
	h.NewAccount("b", "10")
	other := h.Key("b")
	h.said("ada", 5, "--account", "a", "--message", "Exact.", "--locale", "en")
	h.said("ada", 4)
	h.CLI("character", "review", "hide", h.said("ada", 1))
	h.said("bo", 5)
	for range 3 {
		h.said("cy", 3)
	}
	for _, key := range []string{h.key, other, h.key} {
		h.Must(200, "POST", "/chat/completions", key,
			rig.Ask("sim-chat", "x", `,"svc_parameters":{"character_slug":"ada"}`), nil)
	}
	h.Must(200, "POST", "/chat/completions", h.key,
		rig.Ask("sim-chat", "x", `,"svc_parameters":{"character_slug":"cy"}`), nil)
	rig.Await(t, "two accounts imported ada, one cy", func() bool {
		return h.one("ada").Stats.Imports == 2 && h.one("cy").Stats.Imports == 1
	})
	rig.Await(t, "all ratings are there", func() bool { return h.one("cy").Stats.RatingCount == 3 })

	t.Run("filtered, sorted and cut as asked for, in both spellings", h.filters)
	t.Run("wrong queries get the valid values", h.mistakes)
	t.Run("records have every member", func(t *testing.T) { h.records(t, other) })
	t.Run("answered with a key", h.keys)
}

func (h *house) filters(t *testing.T) {
	for query, want := range map[string]string{
		"":                               "ada bo dee cy",
		"?sortBy=featured&sortOrder=asc": "cy dee bo ada",
		"?sort_by=highestRating":         "bo ada cy dee", "?sortBy=highestRating&sort_order=asc": "dee cy ada bo",
		"?sortBy=highlyRated": "bo ada dee cy", "?sortBy=highlyRatedAndRecent": "cy bo ada dee",
		"?sortBy=imports": "ada cy bo dee", "?sortBy=imports&sortOrder=asc": "dee bo cy ada",
		"?sortBy=mostRecent": "cy ada bo dee", "?sortBy=ratingCount": "cy ada bo dee",
		"?isAdult=true": "bo", "?is_adult=false": "ada dee cy", "?isPro=true": "cy", "?is_pro=false": "ada bo dee",
		"?isWebEnabled=true": "ada", "?is_web_enabled=false": "bo dee cy",
		"?isAdult=TRUE": "bo", "?isAdult=true&isPro=true": "",
		"?tags=fun": "bo cy", "?tags=fun,math": "ada bo cy", "?tags=math&tags=space": "ada cy",
		"?tags=science%20fiction": "ada",
		"?tags=none":              "", "?tags=,,&tags=": "ada bo dee cy", "?tags=fun&isAdult=false": "cy",
		"?categories=roleplay": "bo cy", "?categories=Education,none": "ada", "?categories=roleplay&tags=space": "cy",
		"?modelId=other/model": "bo", "?model_id=sim-chat": "ada dee cy",
		"?modelId=sim-chat&model_id=other%2Fmodel": "ada bo dee cy",
		"?search=ADA": "ada", "?search=programmers%20first": "ada", "?search=%C3%BCber": "bo",
		"?search=%23fun":      "bo cy",
		"?search=%23fun%20cy": "cy", "?search=%23sciencefiction": "ada", "?search=%23science-fiction": "ada",
		"?search=fiction":   "ada",
		"?search=%23fictio": "", "?search=exact": "", "?search=%20": "ada bo dee cy", "?search=%23": "",
		"?limit=2": "ada bo", "?limit=1&offset=1": "bo", "?offset=3": "cy", "?offset=4": "",
		"?limit=100":                 "ada bo dee cy",
		"?limit=1&offset=1&tags=fun": "cy", "?offset=9223372036854775807": "", "?limit=2&sortOrder=asc": "cy dee",
		"?search=" + strings.Repeat("x", 200): "", "?tags=" + strings.Repeat("x,", 19) + strings.Repeat("y", 100): "",
		"?unknown=1": "ada bo dee cy",
	} {
		if got := h.slugs(query); got != want {
			t.Errorf("%s lists %q, want %q", query, got, want)
		}
	}
}

func (h *house) mistakes(t *testing.T) {
	for query, member := range map[string]string{
		"limit=0": "limit", "limit=101": "limit", "limit=x": "limit", "limit=1.5": "limit", "limit=": "limit",
		"offset=-1": "offset", "offset=9223372036854775808": "offset", "isAdult=1": "isAdult", "is_pro=yes": "isPro",
		"isWebEnabled=": "isWebEnabled", "sortBy=best": "sortBy", "sort_order=up": "sortOrder",
		"tags=" + strings.Repeat("a,", 20) + "b": "tags", "categories=" + strings.Repeat("a", 101): "categories",
		"modelId=" + strings.Repeat("a", 201): "modelId", "search=" + strings.Repeat("%C3%BC", 201): "search",
	} {
		answer := h.Must(400, "GET", "/characters?"+query, h.key, "", nil)
		if !strings.Contains(string(answer), `"`+member+`"`) {
			t.Errorf("%s is refused with %s, which does not name %s", query, answer, member)
		}
	}
	for _, path := range []string{"/characters/nobody", "/characters/ADA", "/characters/%2e%2e", "/characters/..%2Fada",
		"/characters/nobody/reviews", "/characters/nobody/photo", "/characters/ada.yaml", "/characters/" +
			url.PathEscape(strings.Repeat("ä", 300))} {
		status, _, answer := h.Get(path, h.key)
		if status != 404 || len(answer) > 1000 {
			t.Errorf("%.50s is answered %d %.300s", path, status, answer)
		}
	}
	if answer := h.Must(404, "GET", "/characters/nobody", h.key, "", nil); !strings.Contains(string(answer),
		`"CHARACTER_NOT_FOUND"`) {
		t.Errorf("an unknown character is %s", answer)
	}
}

func (h *house) records(t *testing.T, other string) {
	ada, bo, cy, dee := h.one("ada"), h.one("bo"), h.one("cy"), h.one("dee")
	if s := ada.Stats; s.AverageRating != 4.5 || s.Imports != 2 || s.RatingCount != 2 || s.RatingSum != 9 ||
		s.UserRating == nil || *s.UserRating != 5 {
		t.Errorf("ada's stats are %+v", s)
	}
	if s := dee.Stats; s != (stats{}) {
		t.Errorf("dee's stats are %+v", s)
	}
	if ada.Author != bo.Author || ada.Author == cy.Author || strings.Contains(ada.Author, "ann") || ada.Author == "" ||
		len(ada.Author) > 16 {
		t.Errorf("authors are shown as %q %q %q", ada.Author, bo.Author, cy.Author)
	}
	if ada.ID == bo.ID || len(ada.ID) != 36 || !ada.Featured || !ada.WebEnabled || ada.Adult || !bo.Adult ||
		bo.ModelID != "other/model" || *ada.ShareURL != "https://example.org/ada" || bo.ShareURL != nil ||
		dee.Description != nil || *ada.Description != "First of programmers" || len(dee.Tags) != 0 ||
		!ada.CreatedAt.Equal(time.Date(2026, 10, 1, 10, 0, 0, 0, time.UTC)) || !ada.UpdatedAt.After(ada.CreatedAt) ||
		ada.PhotoURL != nil {
		t.Errorf("%+v\n%+v\n%+v", ada, bo, dee)
	}
	var raw struct{ Data map[string]json.RawMessage }
	h.Must(200, "GET", "/characters/dee", other, "", &raw)
	for _, name := range strings.Fields("id slug name description author adult featured webEnabled modelId photoUrl " +
		"shareUrl tags stats createdAt updatedAt") {
		if raw.Data[name] == nil {
			t.Errorf("%s is missing", name)
		}
		delete(raw.Data, name)
	}
	if len(raw.Data) > 0 {
		t.Errorf("further members are %v", raw.Data)
	}
	var mine struct{ Data record }
	h.Must(200, "GET", "/characters/ada", other, "", &mine)
	if mine.Data.Stats.UserRating != nil {
		t.Errorf("another account has rated %d", *mine.Data.Stats.UserRating)
	}
	status, header, _ := h.Get("/characters", h.key)
	if status != 200 || !strings.Contains(header.Get("Cache-Control"), "private") {
		t.Errorf("the list of an account is %v", header)
	}
}

// public_catalog opens the catalog of models; characters need a key (addendum 3.2).
func (h *house) keys(t *testing.T) {
	for _, path := range []string{"/characters", "/characters/ada", "/characters/ada/reviews", "/characters/nobody"} {
		h.Must(401, "GET", path, "", "", nil)
		h.Must(401, "GET", path, "SVC_INFERENCE_KEY_"+strings.Repeat("a", 43), "", nil)
		if status, _, _ := h.Get(path, h.Key("a", "--type", "ADMIN")); status == 401 || status == 403 {
			t.Errorf("an ADMIN key gets %d of %s", status, path)
		}
	}
	for _, method := range []string{"POST", "PUT", "DELETE", "PATCH"} {
		res := h.Open(method, "/characters/ada", h.key, "{}")
		if _ = res.Body.Close(); res.StatusCode != 405 {
			t.Errorf("%s is answered %d", method, res.StatusCode)
		}
	}
}

func TestReviewsAreListedByPage(t *testing.T) {
	t.Parallel()
	h := open(t, "", cast())
	var ids []string
	for i := range 25 {
		ids = append(ids, h.said("ada", 1+i%5, "--at", fmt.Sprintf("2026-01-%02d", 1+i),
			"--message", fmt.Sprint("nr ", i)))
	}
	mine := h.said("ada", 5, "--account", "a", "--locale", "pt-BR", "--at", "2026-03-01")
	h.CLI("character", "review", "hide", ids[0])
	type review struct {
		ID, CharacterID, Username      string
		Locale, Message, UserAvatarURL *string
		Rating                         int
		IsOwner                        bool
		CreatedAt                      time.Time
	}
	var page struct {
		Object     string
		Data       []review
		Pagination struct{ Page, PageSize, Total, TotalPages int }
		Summary    struct {
			AverageRating float64
			TotalReviews  int
		}
	}
	rig.Await(t, "all reviews are there", func() bool { return h.one("ada").Stats.RatingCount == 25 })
	for query, want := range map[string][5]int{ // on the page, page, pageSize, total, pages
		"": {20, 1, 20, 25, 2}, "?page=2": {5, 2, 20, 25, 2}, "?page=3": {0, 3, 20, 25, 2},
		"?pageSize=100":       {25, 1, 100, 25, 1},
		"?page_size=5&page=5": {5, 5, 5, 25, 5}, "?pageSize=1&page=25": {1, 25, 1, 25, 25},
		"?page=9223372036854775807&page_size=100": {0, 9223372036854775807, 100, 25, 1},
	} {
		page.Data = nil
		status, header, answer := h.Get("/characters/ada/reviews"+query, h.key)
		if err := json.Unmarshal(answer, &page); status != 200 || err != nil {
			t.Fatalf("%s: %d %s %v", query, status, answer, err)
		}
		p := page.Pagination
		got := [5]int{len(page.Data), p.Page, p.PageSize, p.Total, p.TotalPages}
		if got != want || page.Object != "list" || page.Summary.TotalReviews != 25 || page.Summary.AverageRating != 3.16 {
			t.Errorf("%s: %v, want %v; %+v", query, got, want, page.Summary)
		}
		for name, n := range map[string]int{"Limit": p.PageSize, "Page": p.Page, "Total": p.Total,
			"Total-Pages": p.TotalPages} {
			if got := header.Get("X-Pagination-" + name); got != fmt.Sprint(n) {
				t.Errorf("%s: the header %s is %q, not %d", query, name, got, n)
			}
		}
	}
	h.Must(200, "GET", "/characters/ada/reviews?page=1&pageSize=100", h.key, "", &page)
	first, last := page.Data[0], page.Data[24]
	if first.ID != mine || !first.IsOwner || first.Message != nil || *first.Locale != "pt-BR" || first.Rating != 5 ||
		first.CharacterID != h.one("ada").ID || first.UserAvatarURL != nil || len(first.Username) < 5 {
		t.Errorf("the newest is %+v", first)
	}
	if last.ID != ids[1] || last.IsOwner || *last.Message != "nr 1" || last.Locale != nil ||
		last.CreatedAt.Format(time.DateOnly) != "2026-01-02" {
		t.Errorf("the oldest is %+v", last)
	}
	for _, query := range []string{"page=0", "page=-1", "page=x", "pageSize=0", "page_size=101", "pageSize=1e1"} {
		h.Must(400, "GET", "/characters/ada/reviews?"+query, h.key, "", nil)
	}
	h.Must(200, "GET", "/characters/dee/reviews", h.key, "", &page)
	if p := page.Pagination; p.Total != 0 || p.TotalPages != 0 || page.Summary.AverageRating != 0 || len(page.Data) != 0 {
		t.Errorf("reviews of a character without any: %+v", page)
	}
}
