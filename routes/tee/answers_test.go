package tee

import (
	"bytes"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"farebox/billing/store"
	"farebox/providers/chat/dialect"
	"farebox/routes"
)

var noSum = strings.Repeat("0", 64)

// memory keeps answers as the store does.
type memory struct {
	store.EnclaveStore
	mu   sync.Mutex
	rows map[answerKey]store.EnclaveRow
	away bool
}

func (s *memory) AddEnclaveAnswers(list []*store.EnclaveRow) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.away {
		return errors.New("away")
	}
	for _, r := range list {
		key := answerKey{r.Account, r.ID}
		if old, known := s.rows[key]; !known {
			s.rows[key] = *r
		} else if old.AtUs != r.AtUs {
			old.Request, old.Response = nil, nil
			s.rows[key] = old
		}
	}
	return nil
}

func (s *memory) EnclaveAnswer(account uint32, id string, _ int64) (*store.EnclaveRow, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, ok := s.rows[answerKey{account, id}]
	if !ok {
		return nil, store.ErrNoRow
	}
	return &r, nil
}

func (s *memory) PurgeEnclaveAnswers(int64, int) (int, error) { return 0, nil }

// "It gave my second answer the id of the first, and its signature fitted": a host that
// gives one id to two answers has a signature for neither, whenever the second arrives.
func TestOneIDForTwoAnswers(t *testing.T) {
	t.Parallel()
	const c, other = 1, 2
	target := &dialect.Target{Name: "m", Model: &dialect.Model{ID: "e2ee-m"}, Upstream: &dialect.Upstream{Name: "u"}}
	one := &routes.EnclaveAnswer{ID: "x", Target: target, Request: [32]byte{1}, Response: [32]byte{2}}
	two := &routes.EnclaveAnswer{ID: "x", Target: target, Request: [32]byte{3}, Response: [32]byte{4}}
	for name, between := range map[string]func(a *answers, s *memory){
		"at once": func(*answers, *memory) {},
		"later":   func(a *answers, _ *memory) { a.flush() },
		"while the store is away": func(a *answers, s *memory) {
			s.away = true
			a.flush()
			s.away = false
		},
	} {
		s := &memory{rows: map[answerKey]store.EnclaveRow{}}
		a := newAnswers(s, time.Now, zerolog.Nop())
		a.add(c, one)
		a.add(other, one)
		between(a, s)
		a.add(c, two)
		a.flush()
		r, err := a.find(c, "x")
		if err != nil || r == nil || sumText(r.Request) != noSum || sumText(r.Response) != noSum {
			t.Errorf("%s: %+v, %v", name, r, err)
		}
		if r, err = a.find(other, "x"); err != nil || r == nil || !bytes.Equal(r.Request, one.Request[:]) {
			t.Errorf("%s: the other account's answer: %+v, %v", name, r, err)
		}
	}
}

// late is a store to which an answer is added while others are written.
type late struct {
	memory
	meanwhile func()
}

func (s *late) AddEnclaveAnswers(list []*store.EnclaveRow) error {
	if f := s.meanwhile; f != nil {
		s.meanwhile = nil
		f()
	}
	return s.memory.AddEnclaveAnswers(list)
}

// A second answer is not lost either if it arrives while the first is being written.
func TestASecondAnswerWhileTheFirstIsWritten(t *testing.T) {
	t.Parallel()
	const c = 1
	target := &dialect.Target{Name: "m", Model: &dialect.Model{ID: "e2ee-m"}, Upstream: &dialect.Upstream{Name: "u"}}
	s := &late{memory: memory{rows: map[answerKey]store.EnclaveRow{}}}
	a := newAnswers(s, time.Now, zerolog.Nop())
	a.add(c, &routes.EnclaveAnswer{ID: "x", Target: target, Request: [32]byte{1}})
	s.meanwhile = func() { a.add(c, &routes.EnclaveAnswer{ID: "x", Target: target, Request: [32]byte{3}}) }
	a.flush()
	a.flush()
	if r, err := a.find(c, "x"); err != nil || r == nil || sumText(r.Request) != noSum {
		t.Errorf("%+v, %v", r, err)
	}
}
