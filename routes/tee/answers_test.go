package tee

import (
	"errors"
	"sync"
	"testing"

	"github.com/rs/zerolog"

	"farebox/billing"
	"farebox/billing/store"
	"farebox/providers/chat/dialect"
	"farebox/routes"
)

// shelf keeps answers as the store does.
type shelf struct {
	mu   sync.Mutex
	rows map[string]answer
	away bool
}

func (s *shelf) AddEnclaveAnswers(list []*billing.EnclaveAnswer) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.away {
		return errors.New("away")
	}
	for _, r := range list {
		key := keyOf(r.Account.ID, r.ID)
		if old, known := s.rows[key]; !known {
			s.rows[key] = *r
		} else if !old.At.Equal(r.At) {
			old.Request, old.Response = [32]byte{}, [32]byte{}
			s.rows[key] = old
		}
	}
	return nil
}

func (s *shelf) FindEnclaveAnswer(a *billing.AccountState, id string) (*billing.EnclaveAnswer, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, ok := s.rows[keyOf(a.ID, id)]
	if !ok {
		return nil, store.ErrNoRow
	}
	return &r, nil
}

func (s *shelf) KeepEnclaveSignature(a *billing.EnclaveAnswer, signature []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := keyOf(a.Account.ID, a.ID)
	r := s.rows[key]
	r.Signature = signature
	s.rows[key] = r
	return nil
}

func (s *shelf) PurgeEnclaveAnswers() error { return nil }

// "It gave my second answer the id of the first, and its signature fitted": a host that
// gives one id to two answers has a signature for neither, whenever the second comes.
func TestOneIDForTwoAnswers(t *testing.T) {
	t.Parallel()
	c := &routes.Call{Key: &billing.Key{Account: &billing.AccountState{ID: "a"}}}
	other := &routes.Call{Key: &billing.Key{Account: &billing.AccountState{ID: "b"}}}
	target := &dialect.Target{Name: "m", Model: &dialect.Model{ID: "e2ee-m"}, Upstream: &dialect.Upstream{Name: "u"}}
	one := &routes.EnclaveAnswer{ID: "x", Target: target, Request: [32]byte{1}, Response: [32]byte{2}}
	two := &routes.EnclaveAnswer{ID: "x", Target: target, Request: [32]byte{3}, Response: [32]byte{4}}
	for name, between := range map[string]func(a *answers, s *shelf){
		"at once": func(*answers, *shelf) {},
		"later":   func(a *answers, _ *shelf) { a.flush() },
		"while the store is away": func(a *answers, s *shelf) {
			s.away = true
			a.flush()
			s.away = false
		},
	} {
		s := &shelf{rows: map[string]answer{}}
		a := newAnswers(s, zerolog.Nop())
		a.add(c, one)
		a.add(other, one)
		between(a, s)
		a.add(c, two)
		a.flush()
		r, err := a.find(c, "x")
		if err != nil || r == nil || r.Request != [32]byte{} || r.Response != [32]byte{} {
			t.Errorf("%s: %+v, %v", name, r, err)
		}
		if r, err = a.find(other, "x"); err != nil || r == nil || r.Request != one.Request {
			t.Errorf("%s: somebody else's: %+v, %v", name, r, err)
		}
	}
}

// late is a store in which somebody adds an answer while others are written.
type late struct {
	shelf
	meanwhile func()
}

func (s *late) AddEnclaveAnswers(list []*billing.EnclaveAnswer) error {
	if f := s.meanwhile; f != nil {
		s.meanwhile = nil
		f()
	}
	return s.shelf.AddEnclaveAnswers(list)
}

// Nor is the second one lost that comes while the first is being written.
func TestASecondAnswerWhileTheFirstIsWritten(t *testing.T) {
	t.Parallel()
	c := &routes.Call{Key: &billing.Key{Account: &billing.AccountState{ID: "a"}}}
	target := &dialect.Target{Name: "m", Model: &dialect.Model{ID: "e2ee-m"}, Upstream: &dialect.Upstream{Name: "u"}}
	s := &late{shelf: shelf{rows: map[string]answer{}}}
	a := newAnswers(s, zerolog.Nop())
	a.add(c, &routes.EnclaveAnswer{ID: "x", Target: target, Request: [32]byte{1}})
	s.meanwhile = func() { a.add(c, &routes.EnclaveAnswer{ID: "x", Target: target, Request: [32]byte{3}}) }
	a.flush()
	a.flush()
	if r, err := a.find(c, "x"); err != nil || r == nil || r.Request != [32]byte{} {
		t.Errorf("%+v, %v", r, err)
	}
}
