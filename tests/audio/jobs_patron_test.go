package audio

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"time"

	"farebox/tests/rig"
)

// patron is a client with an account of its own, which orders, asks, fetches and lets go.
type patron struct {
	h      *house
	random *rand.Rand
	name   string // of the account
	key    string
	client *http.Client
	orders []*commission
	open   []*commission // that something is done with still
	wrong  []string
}

// Plans of a patron for an order.
const (
	leaves   = iota // nothing
	fetches         // asks until it is there, and lets it go
	fetchOne        // asks until it is there, and releases it with that request
	forgets         // lets it go soon, whatever has become of it
	plans
)

// commission is an order of a patron, and the patron's knowledge of it.
type commission struct {
	*ware
	name, spoiled string
	plan          int
	at            time.Time
	id            string // empty: it was refused
	refunded      bool   // the refusal said so
	done, failed  bool   // it was seen so
	letting, gone bool   // it was, or may have been, let go
}

func newPatron(h *house, name string, random *rand.Rand) *patron {
	g := h.nodes[0]
	g.NewAccount(name, "1000")
	g.Credit(name, "2", "--currency", "DIEM")
	g.Credit(name, "3", "--currency", "BUNDLED_CREDITS")
	return &patron{h: h, name: name, random: random, key: g.Key(name), client: &http.Client{Timeout: 20 * time.Second}}
}

// shop goes on until stop is closed.
func (p *patron) shop(stop chan struct{}) {
	for {
		select {
		case <-stop:
			return
		case <-time.After(time.Duration(10+p.random.IntN(60)) * time.Millisecond):
		}
		if len(p.open) < 10 && p.random.IntN(2) == 0 {
			p.order()
		} else if len(p.open) > 0 {
			p.visit(p.random.IntN(len(p.open)))
		}
	}
}

// order orders something, again and again under its key until there is an answer.
func (p *patron) order() {
	w := &wares[p.random.IntN(len(wares))]
	ways := fine
	if p.random.IntN(2) == 0 {
		ways = w.spoiled
	}
	o := &commission{ware: w, name: fmt.Sprintf("%s-%d", p.name, len(p.orders)), plan: p.random.IntN(plans),
		spoiled: ways[p.random.IntN(len(ways))]}
	p.orders = append(p.orders, o)
	body := fmt.Sprintf(`{"model":%q,"prompt":"[[sim %s]] %s"`, o.model, o.spoiled, o.name)
	if o.kind == "video" {
		body += `,"duration":"2s"`
	}
	last := ""
	for end := time.Now().Add(3 * time.Minute); !p.try(o, body+"}", &last); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			p.wrong = append(p.wrong, o.name+" was never answered, last by "+last)
			return
		}
	}
	if o.at = time.Now(); o.id != "" {
		p.open = append(p.open, o)
	}
}

// try is one try; true: its answer is the last word.
func (p *patron) try(o *commission, body string, last *string) bool {
	status, _, answer, err := rig.Try(p.client, p.h.url(p.random)+"/"+o.kind+"/queue", p.key, body,
		"Idempotency-Key", o.name)
	if err != nil {
		*last = err.Error()
		return false
	}
	p.h.answers.Add(1)
	*last = fmt.Sprintf("%d %s", status, answer)
	var q struct {
		ID string `json:"queue_id"`
	}
	_ = json.Unmarshal([]byte(answer), &q)
	switch {
	case status == 200 && q.ID != "":
		o.id = q.ID
	case status == 503 || status == 409 || status == 429:
		return false
	case status >= 500 || status == 400 || status == 422: // by its upstream
		o.refunded = strings.Contains(answer, "refunded")
	default:
		p.wrong = append(p.wrong, fmt.Sprintf("the order %s (%s) is answered %s", o.name, o.spoiled, *last))
	}
	return true
}

// visit does something with an order that is open.
func (p *patron) visit(i int) {
	o := p.open[i]
	switch {
	case o.plan == leaves && p.random.IntN(4) > 0:
		return // but seldom
	case o.letting && o.plan != fetchOne, o.plan == forgets && time.Since(o.at) > p.later(),
		o.plan == fetches && (o.done || o.failed):
		p.letGo(o)
	default:
		p.ask(o, o.plan == fetchOne)
	}
	if o.gone || o.failed && o.plan != fetches || o.done && o.plan == leaves {
		p.open = append(p.open[:i], p.open[i+1:]...)
	}
}

// later is how long who forgets an order waits with that.
func (p *patron) later() time.Duration { return time.Duration(p.random.IntN(800)) * time.Millisecond }

// post sends something about an order; ok is false where that has to be tried again.
func (p *patron) post(o *commission, path, more string) (status int, header http.Header, answer string, ok bool) {
	status, header, answer, err := rig.Try(p.client, p.h.url(p.random)+"/"+o.kind+path, p.key,
		fmt.Sprintf(`{"model":%q,"queue_id":%q%s}`, o.model, o.id, more))
	if err == nil {
		p.h.answers.Add(1)
	}
	return status, header, answer, err == nil && status != 503 && status != 429
}

// ask is one question for an order.
func (p *patron) ask(o *commission, once bool) {
	more := ""
	if once {
		more = `,"delete_media_on_completion":true`
	}
	status, header, answer, ok := p.post(o, "/retrieve", more)
	if !ok {
		// The last byte may have been taken, and never come.
		o.letting = o.letting || once && status != 503 && status != 429
		return
	}
	kind := header.Get("Content-Type")
	was := *o
	switch {
	case status == 200 && (strings.HasPrefix(kind, "audio/") || strings.HasPrefix(kind, "video/")):
		o.done, o.letting = true, o.letting || once
		if was.failed || len(answer) < 500 {
			p.blame(&was, "is here, with %d bytes", len(answer))
		}
	case status == 200 && strings.HasPrefix(answer, `{"status":"processing"`):
		if was.done || was.failed {
			p.blame(&was, "is processing")
		}
	case status == 200 && strings.HasPrefix(answer, `{"status":"failed"`):
		if o.failed = true; was.done {
			p.blame(&was, "has failed: %s", answer)
		}
	case status == 404 && was.letting:
		o.gone = true
	default:
		p.blame(&was, "is answered %d %s", status, rig.Last(answer, 200))
	}
}

// letGo is one try to release an order.
func (p *patron) letGo(o *commission) {
	before := o.letting
	o.letting = true
	switch status, _, answer, ok := p.post(o, "/complete", ""); {
	case !ok, status == 200 && answer == `{"success":false}`:
	case status == 200 && answer == `{"success":true}`, status == 404 && before:
		o.gone = true
	default:
		p.blame(o, "is released with %d %s", status, answer)
	}
}

func (p *patron) blame(o *commission, format string, args ...any) {
	p.wrong = append(p.wrong, fmt.Sprintf("%s %s (%s; done %t, failed %t, let go %t): it ", o.name, o.id, o.spoiled, o.done,
		o.failed, o.letting)+fmt.Sprintf(format, args...))
}

// finish goes on with all orders until each is gone, or is left as its patron wanted.
func (p *patron) finish(end time.Time) {
	for _, o := range p.orders {
		for o.id != "" && !o.gone && time.Now().Before(end) {
			switch {
			case o.plan == leaves && (o.done || o.failed):
			case o.plan == fetches && (o.done || o.failed), o.plan == forgets, o.failed, o.letting && o.plan != fetchOne:
				p.letGo(o)
				continue
			default:
				if p.ask(o, o.plan == fetchOne); !o.done && !o.failed {
					time.Sleep(20 * time.Millisecond)
				}
				continue
			}
			break
		}
	}
}
