package augment

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"farebox/tests/rig"
)

// emptyCells is a small workbook with n cells and no text, which a child learns only after
// it has read all of them: about two seconds for a million.
func emptyCells(t testing.TB, n int) []byte {
	const office = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
	const sheets = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
	relations := func(target, kind string) string {
		return `<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships"><Relationship Id="r1" ` +
			`Type="` + office + "/" + kind + `" Target="` + target + `"/></Relationships>`
	}
	return zipped(t, "[Content_Types].xml",
		`<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types"><Override PartName="/xl/workbook.xml" `+
			`ContentType="application/vnd.openxmlformats-officedocument.spreadsheetml.sheet.main+xml"/></Types>`,
		"_rels/.rels", relations("xl/workbook.xml", "officeDocument"),
		"xl/workbook.xml", `<workbook xmlns="`+sheets+`" xmlns:r="`+office+`"><sheets><sheet name="S" sheetId="1" `+
			`r:id="r1"/></sheets></workbook>`,
		"xl/_rels/workbook.xml.rels", relations("worksheets/sheet1.xml", "worksheet"),
		"xl/worksheets/sheet1.xml", `<worksheet xmlns="`+sheets+`"><sheetData><row>`+strings.Repeat("<c/>", n)+
			`<c><v></v></c></row></sheetData></worksheet>`)
}

// "Somebody sends twenty documents at once, and mine waits for all of them; a hundred and
// forty, and mine and all my pages are refused." (review F2)
func TestAGreedyAccountHoldsUpOneDocument(t *testing.T) {
	p := serve(t, says(200, "text/html", article("")))
	s := start(t, settings+"augment: { text_parser: { rate: { rpm: 0 } }, scrape: { rate: { rpm: 0 }, robots: ignore } }\n", "100")
	s.NewAccount("b", "100")
	honest := *s
	honest.key = s.Key("b")
	kind, bomb := form(part{"file", "a.xlsx", string(emptyCells(t, 300_000))})
	for _, n := range []int{20, 140} {
		t.Run(fmt.Sprint(n, " at a time"), func(t *testing.T) {
			ctx, stop := context.WithCancel(context.Background())
			var ended atomic.Int64
			var greedy sync.WaitGroup
			for range n {
				greedy.Go(func() {
					for ctx.Err() == nil {
						if status, _, _ := s.send(ctx, parsing, kind, bomb); status == 400 {
							ended.Add(1)
						}
					}
				})
			}
			rig.Await(t, "the greedy account's documents wait", func() bool {
				waiting, _ := s.Metric("farebox_jail_jobs")
				return waiting >= float64(min(n, 130))
			})
			for what, ask := range map[string]func(i int) (int, string){
				"document": func(int) (int, string) { return honest.parse(t, "a.txt", []byte("stork")) },
				"page": func(i int) (int, string) {
					status, _, answer := honest.ask(t, "/augment/scrape", fmt.Sprintf(`{"url":"%s/%d/%d"}`, p.URL, n, i))
					return status, answer
				},
			} {
				fewest := int64(n) // this process may see the end of the honest one's late
				for i := range 3 {
					before, began := ended.Load(), time.Now()
					status, answer := ask(i)
					ahead := ended.Load() - before
					t.Logf("%s: %d after %v, %d of the greedy account's ended before", what, status,
						time.Since(began).Round(time.Millisecond), ahead)
					if status != 200 {
						t.Errorf("the honest %s: %d %.200s", what, status, answer)
					}
					fewest = min(fewest, ahead)
				}
				if fewest > 2 {
					t.Errorf("%d of the greedy account's documents were read before each honest %s", fewest, what)
				}
			}
			stop()
			greedy.Wait()
			rig.Await(t, "nothing waits any more", func() bool {
				waiting, _ := s.Metric("farebox_jail_jobs")
				return waiting == 0
			})
		})
	}
}

// Unpaid processor time has a limit; other accounts do not notice.
func TestUnpaidDocumentsUseUpABudget(t *testing.T) {
	t.Parallel()
	s := start(t, strings.Replace(settings, "limits: {", "limits: { unpaid_work: 1s,", 1)+
		"augment: { text_parser: {}, scrape: {} }\n", "100")
	s.NewAccount("b", "100")
	honest := *s
	honest.key = s.Key("b")
	kind, bomb := form(part{"file", "a.xlsx", string(emptyCells(t, 1_000_000))})
	var header http.Header
	refused := 0
	for range 8 {
		var status int
		var answer string
		if status, header, answer = s.send(context.Background(), parsing, kind, bomb); status == 429 {
			refused++
			if !strings.Contains(answer, "took too much time") {
				t.Errorf("%s", answer)
			}
		} else if status != 400 || refused > 0 {
			t.Errorf("%d %s", status, answer)
		}
	}
	after, err := strconv.Atoi(header.Get("Retry-After"))
	if refused < 5 || err != nil || after < 1 || after > 300 {
		t.Errorf("%d were refused, the last one with %v", refused, header)
	}
	if status, _, answer := s.ask(t, "/augment/scrape", `{"url":"http://127.0.0.1:1/"}`); status != 429 {
		t.Errorf("a page of the same account: %d %s", status, answer)
	}
	for range 3 {
		if status, answer := honest.parse(t, "a.txt", []byte("stork")); status != 200 {
			t.Errorf("another account: %d %s", status, answer)
		}
	}
	s.charged(t, 0)
}
