package video

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"farebox/tests/rig"
)

// A quote equals the cost of the job, to the last digit: for random orders of every model
// and every shape of price.
func TestQuotesEqualCharges(t *testing.T) {
	t.Parallel()
	s := start(t, ", per_account: 1000", "", "")
	random := rig.Seeded(t)
	for n := range 6 {
		t.Run(fmt.Sprint("account ", n), func(t *testing.T) {
			t.Parallel()
			x := random(uint64(n))
			name := fmt.Sprint("quotes-", n)
			key := s.account(name)
			total, said := rig.Money(0), []string(nil)
			for range 12 {
				quote, order := anOrder(x)
				var q struct{ Quote json.Number }
				s.Must(200, "POST", "/video/quote", key, quote, &q)
				s.queue(t, key, order)
				total += rig.Exact(t, q.Quote)
				said = append(said, fmt.Sprintf("%s for %.200s", q.Quote, quote))
			}
			s.spent(t, key, total.String())
			if t.Failed() {
				t.Logf("the quotes were\n%s", strings.Join(said, "\n"))
			}
		})
	}
}

// anOrder is a random order, and the request for its quote.
func anOrder(x *rand.Rand) (quote, order string) {
	one := func(list ...string) string { return list[x.IntN(len(list))] }
	member := func(name string, list ...string) string {
		if value := one(append(list, "")...); value != "" {
			return fmt.Sprintf(`,%q:%s`, name, value)
		}
		return ""
	}
	const prompt = `,"prompt":"[[sim polls=1000]] x"`
	choice := ""
	switch model := one("by-second", "by-piece", "either", "larger", "gift"); model {
	case "by-second":
		choice = `"model":"` + one(model, "movie") + `","duration":` + one(`"5s"`, `"10s"`) +
			member("resolution", `"480p"`, `"720p"`, `"1080p"`) + member("audio", "true", "false") +
			member("aspect_ratio", `"16:9"`)
		quote, order = choice, choice+prompt
		if clips := x.IntN(3); clips > 0 {
			total, list := time.Duration(0), []string(nil)
			for range clips {
				length := time.Duration(2000+x.IntN(5500)) * time.Millisecond
				total += length
				list = append(list, `"`+reel(length, 16, 4)+`"`)
			}
			quote += fmt.Sprintf(`,"reference_video_total_duration":%.3f`, total.Seconds())
			order += `,"reference_video_urls":[` + strings.Join(list, ",") + `]`
		}
		return "{" + quote + "}", "{" + order + "}"
	case "by-piece":
		choice = `"model":"by-piece","duration":` + one(`"5s"`, `"10s"`) + member("resolution", `"480p"`, `"720p"`)
	case "either":
		choice = `"model":"either","duration":` + one(`"4s"`, `"auto"`, `"1 gen"`) + member("audio", "true", "false")
		return "{" + choice + "}", "{" + choice + prompt + member("bitrate_mode", `"standard"`, `"high"`) +
			member("omni_reference_task_type", `"editing"`, `"auto"`) + "}"
	case "larger":
		footage := `,"video_url":"` + reel(time.Duration(1000+x.IntN(4000))*time.Millisecond,
			[]int{180, 360, 540, 720, 1080}[x.IntN(5)], []int{4, 24, 50}[x.IntN(3)]) + `"`
		choice = `"model":"larger"` + footage + member("upscale_factor", "1", "2", "4")
		return "{" + choice + "}", "{" + choice + member("prompt", `"[[sim polls=1000]] x"`) + "}"
	case "gift":
		choice = `"model":"gift","duration":"5s"`
	}
	return "{" + choice + "}", "{" + choice + prompt + "}"
}
