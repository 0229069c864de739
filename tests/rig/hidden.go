package rig

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"time"

	"farebox/bench/upstream"
)

// Hidden sends bodies of a Hider and compares the upstream's reading with the account's charge.
type Hidden struct {
	*Gateway
	Sim *Simulated
	Key string // of the account that pays
	// Body writes one. mark is to be part of an order of a job.
	Body func(r *rand.Rand, mark string) (path, body, contentType string)
	// Price is the charge for this body as a server reads it, in nano-dollars, or why it must not
	// get it.
	Price func(path string, body map[string]any) (int64, error)
	Jobs  bool // the upstream is asked after the answer

	left, due Money  // the balance of an answer, and sales since then
	sold      string // since then
}

// Run tries so many bodies, of which some must reach the upstream.
func (h *Hidden) Run(t *testing.T, times int) {
	t.Helper()
	source := Seeded(t)
	reached, refused, differ := 0, 0, 0
	h.left = h.balance(t)
	for n := range times {
		mark := fmt.Sprintf("order-%d-", n)
		before := h.Sim.Idle(t).Requests
		path, body, contentType := h.Body(source(uint64(n)), mark)
		status, header, answer, err := Try(Client, h.URL+path+"?"+beside, h.Key, body, "Content-Type", contentType,
			"X-Webhook-Url", beside, "X-Fal-Webhook", beside, "OpenAI-Organization", beside, "Prefer", beside, "Cookie", beside)
		if err != nil || status >= 500 || status != 200 && status < 400 {
			t.Errorf("%d: %s %.2000s is answered %d %.300s %v", n, path, body, status, answer, err)
		}
		sent := h.arrived(t, before, mark, status)
		want, arrived, wrong := Money(0), "", error(nil)
		for i := range sent {
			arrived += fmt.Sprintf(" %s %.2000q", sent[i].Path, sent[i].Body)
			price, err := h.price(&sent[i])
			want += Money(price)
			wrong = errors.Join(wrong, err)
		}
		if len(sent) > 0 {
			reached++
		}
		if status != 200 {
			refused++
			want = 0
		}
		story := fmt.Sprintf("%d: %s %.2000s is answered %d, and arrived as%s\n", n, path, body, status, arrived)
		if err := errors.Join(wrong, h.paid(t, header, want, story)); err != nil {
			if differ++; differ <= 5 {
				t.Errorf("%v\n%s", err, story)
			}
		}
	}
	if err := h.settled(t); err != nil {
		t.Error(err)
	}
	t.Logf("of %d bodies %d reached the upstream, %d were refused, %d differ", times, reached, refused, differ)
	if reached < times/20 || refused < times/20 {
		t.Errorf("of %d bodies only %d reached the upstream, and %d were refused", times, reached, refused)
	}
}

// paid compares earlier sales with the balance of an answer.
func (h *Hidden) paid(t *testing.T, header http.Header, want Money, story string) error {
	said, late := header.Get("X-Svc-Balance-Usd"), false
	if said != "" {
		before := Exact(t, json.Number(said))
		if late = before != h.left-h.due; !late {
			h.left, h.due, h.sold = before, 0, ""
		}
	}
	h.due += want
	h.sold += story
	if late { // some are settled a moment after their answer
		return h.settled(t)
	}
	return nil
}

// settled compares the sales since the last comparison with the books.
func (h *Hidden) settled(t *testing.T) (err error) {
	now := h.balance(t)
	for end := time.Now().Add(patience); now != h.left-h.due && time.Now().Before(end); now = h.balance(t) {
		time.Sleep(10 * time.Millisecond)
	}
	if now != h.left-h.due {
		err = fmt.Errorf("%s was paid, and the upstream's requests cost %s:\n%s", h.left-now, h.due, h.sold)
	}
	h.left, h.due, h.sold = now, 0, ""
	return err
}

// balance is the account's balance.
func (h *Hidden) balance(t *testing.T) Money {
	var b struct{ Balances struct{ USD json.Number } }
	h.Must(200, "GET", "/billing/balance", h.Key, "", &b)
	return Exact(t, b.Balances.USD)
}

// beside is in the query and in headers of each body, where no upstream may read it.
const beside = "webhook=http://hidden.example/"

// price is the price of a request that reached the upstream. One server may accept a body
// that another refuses: it is read, too.
func (h *Hidden) price(sent *upstream.Received) (int64, error) {
	if len(sent.Body) == 0 {
		return 0, nil
	}
	if strings.Contains(sent.Head, "hidden") {
		return 0, fmt.Errorf("a value beside the body arrived: %q", sent.Head)
	}
	body, err := Once(sent)
	if err != nil {
		return 0, err
	}
	price, err := h.Price(sent.Path, body)
	if sent.Status >= 300 {
		price = 0
	}
	return price, err
}

// arrived are the upstream's requests for a body.
func (h *Hidden) arrived(t *testing.T, before int64, mark string, status int) (sent []upstream.Received) {
	if !h.Jobs {
		n := int(h.Sim.Idle(t).Requests - before)
		all := h.Sim.Last()
		return all[len(all)-n:]
	}
	look := func() bool {
		for _, one := range h.Sim.Last() {
			if strings.Contains(string(one.Body), mark) {
				sent = append(sent, one)
			}
		}
		return len(sent) > 0
	}
	if !look() && status == 200 {
		Await(t, "the upstream has the order "+mark, look)
	}
	return sent
}
