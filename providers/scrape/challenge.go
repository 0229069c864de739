package scrape

import (
	"bytes"
	"net/http"
	"slices"
	"strings"
)

// challenge distinguishes one kind of wall from a page.
type challenge struct {
	name string
	// statuses are those of its answers; empty: any.
	statuses []int
	// header has to be there, with value in it where one is given.
	header, value string
	// marks: one of them is in the page, in any case.
	marks []string
}

// denials are the statuses of walls.
var denials = []int{401, 403, 405, 406, 407, 429, 451, 503}

// challenges, the surer ones first. Marks are from the walls' own scripts and forms, so
// that a page about one is not taken for it.
var challenges = []challenge{
	{name: "a challenge of Cloudflare", header: "Cf-Mitigated", value: "challenge"},
	{name: "a challenge of Vercel", header: "X-Vercel-Mitigated", value: "challenge"},
	{name: "a challenge of AWS WAF", header: "X-Amzn-Waf-Action"},
	{name: "DataDome", header: "X-Datadome", value: "protected", statuses: denials},
	{name: "Kasada", header: "X-Kpsdk-Ct", statuses: denials},
	{name: "a challenge of Cloudflare", marks: []string{"<title>just a moment...</title>", "window._cf_chl_opt",
		"cf-browser-verification", "/cdn-cgi/challenge-platform/h/b/orchestrate", "id=\"challenge-error-text\""}},
	{name: "a block of Cloudflare", statuses: denials, marks: []string{"<title>attention required! | cloudflare",
		"cf-error-details", "error code: 1020", "error code: 1010", "error code: 1015"}},
	{name: "DataDome", marks: []string{"geo.captcha-delivery.com", "ct.captcha-delivery.com"}},
	{name: "a challenge of HUMAN (PerimeterX)", marks: []string{"id=\"px-captcha\"", "window._pxappid",
		"captcha.px-cdn.net", "captcha.px-cloud.net"}},
	{name: "a challenge of Akamai", marks: []string{"sec-if-cpt-container", "/_sec/cp_challenge/",
		"triggerinterstitialchallenge", "/_sec/verify?provider="}},
	{name: "a block of Akamai", statuses: denials, marks: []string{"errors.edgesuite.net", "edgesuite.net/"}},
	{name: "a challenge of AWS WAF", marks: []string{".awswaf.com/", "window.gokuprops"}},
	{name: "Imperva", marks: []string{"/_incapsula_resource?", "incapsula incident id"}},
	{name: "Sucuri", marks: []string{"sucuri_cloudproxy_js", "sucuri website firewall - access denied"}},
	{name: "Kasada", marks: []string{"/149e9513-01fa-4fb0-aad4-566afd725d1b/"}},
	{name: "Anubis", marks: []string{"/.within.website/x/cmd/anubis/"}},
	{name: "a challenge of DDoS-Guard", marks: []string{"/.well-known/ddos-guard/js-challenge",
		"<title>ddos-guard</title>"}},
	{name: "a challenge of Vercel", marks: []string{"<title>vercel security checkpoint</title>"}},
	{name: "F5", marks: []string{"the requested url was rejected. please consult with your administrator"}},
	{name: "a captcha of Google", marks: []string{"our systems have detected unusual traffic from your computer"}},
	{name: "a captcha of Amazon", marks: []string{"/errors/validatecaptcha"}},
	{name: "a captcha", marks: []string{"class=\"g-recaptcha\"", "class=\"h-captcha\"", "class=\"cf-turnstile\"",
		"id=\"captcha-form\"", "smartcaptcha.yandexcloud.net", "class=\"frc-captcha\""}},
}

// challengeHead is the part of a page that is searched: walls are small.
const challengeHead = 64 << 10

// challengeIn finds the wall in an answer. Of pages with status 200 only those with next to
// no text are checked.
func challengeIn(status int, header http.Header, body []byte) *challenge {
	low := bytes.ToLower(body[:min(len(body), challengeHead)])
	for i := range challenges {
		c := &challenges[i]
		if len(c.statuses) > 0 && !slices.Contains(c.statuses, status) {
			continue
		}
		if c.header != "" {
			if v := header.Get(c.header); v == "" || !strings.Contains(strings.ToLower(v), c.value) {
				continue
			}
		}
		if len(c.marks) == 0 || slices.ContainsFunc(c.marks, func(m string) bool {
			return bytes.Contains(low, []byte(m))
		}) {
			return c
		}
	}
	return nil
}
