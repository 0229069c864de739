package billing

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"farebox/billing/store"
)

// Steering is an upstream that operators keep requests from, on all nodes.
type Steering struct {
	Upstream string    `json:"upstream"`
	Model    string    `json:"model"` // empty: all that it serves
	State    string    `json:"state"` // serving, drained or offline
	Since    time.Time `json:"since,omitzero"`
	By       string    `json:"by,omitempty"`
	Reason   string    `json:"reason,omitempty"`
}

// States of an upstream under steering.
const (
	Serving = "serving"
	Drained = "drained"
	Offline = "offline"
)

const (
	steeringName = "steering"
	steeringMost = 1000 // entries
)

// ErrNoUpstream is an upstream that no config names.
var ErrNoUpstream = errors.New("there is no such upstream")

// steering is the state of all upstreams, and the functions that check and apply it.
type steering struct {
	reading sync.Mutex
	list    atomic.Pointer[[]Steering]
	on      atomic.Pointer[steered]
}

type steered struct {
	known func(upstream, model string) bool
	apply func()
}

// SteeredOf is the state of an upstream's model under a list: the stricter one of its entries.
func SteeredOf(list []Steering, upstream, model string) Steering {
	found := Steering{Upstream: upstream, Model: model, State: Serving}
	for _, s := range list {
		if s.Upstream == upstream && (s.Model == "" || s.Model == model) && found.State != Offline {
			found = s
			found.Model = model
		}
	}
	return found
}

// OnSteering has apply called at every change of the state of the upstreams. known says that the config has an upstream,
// which serves a model if one is named.
func (l *Ledger) OnSteering(known func(upstream, model string) bool, apply func()) {
	l.steering.on.Store(&steered{known, apply})
}

// Steering lists the upstreams that operators keep requests from.
func (l *Ledger) Steering() []Steering {
	if list := l.steering.list.Load(); list != nil {
		return *list
	}
	return nil
}

// readSteering takes over the store's state.
func (l *Ledger) readSteering() error {
	s, ok := l.store.(store.Settings)
	if !ok {
		return nil
	}
	l.steering.reading.Lock()
	defer l.steering.reading.Unlock()
	text, err := s.Setting(steeringName)
	if err != nil {
		return fmt.Errorf("cannot read which upstreams are drained: %w", err)
	}
	list, err := steeringIn(text)
	if err != nil {
		return err
	}
	l.steering.list.Store(&list)
	if on := l.steering.on.Load(); on != nil {
		on.apply()
	}
	return nil
}

func steeringIn(text []byte) (list []Steering, err error) {
	if len(text) == 0 {
		return nil, nil
	}
	if err := json.Unmarshal(text, &list); err != nil {
		return nil, fmt.Errorf("cannot read which upstreams are drained: %w", err)
	}
	return list, nil
}

// DrainUpstream keeps new requests from an upstream, and from one model of it if that is named. Requests that have failed
// everywhere else still try it. Those under way end as they would.
type DrainUpstream struct {
	Upstream string `json:"upstream"`
	Model    string `json:"model,omitempty"`
}

// OfflineUpstream keeps all new requests from an upstream.
type OfflineUpstream struct {
	Upstream string `json:"upstream"`
	Model    string `json:"model,omitempty"`
}

// ResumeUpstream ends both. Without a model it ends them for all that the upstream serves.
type ResumeUpstream struct {
	Upstream string `json:"upstream"`
	Model    string `json:"model,omitempty"`
}

func (d DrainUpstream) carryOut(l *Ledger, c *call) (Steering, error) {
	return l.steer(c, d.Upstream, d.Model, Drained)
}

func (o OfflineUpstream) carryOut(l *Ledger, c *call) (Steering, error) {
	return l.steer(c, o.Upstream, o.Model, Offline)
}

func (r ResumeUpstream) carryOut(l *Ledger, c *call) (Steering, error) {
	return l.steer(c, r.Upstream, r.Model, Serving)
}

func (l *Ledger) steer(c *call, upstream, model, state string) (Steering, error) {
	s, ok := c.store.(store.Settings)
	if !ok {
		return Steering{}, errors.New("this store cannot keep the state of upstreams")
	}
	on, list := l.steering.on.Load(), l.Steering()
	isThere := func(s Steering) bool { return s.Upstream == upstream && (model == "" || s.Model == model) }
	// An upstream that the config does not name any more can still be resumed.
	if on != nil && !on.known(upstream, model) && !(state == Serving && slices.ContainsFunc(list, isThere)) {
		return Steering{}, fmt.Errorf("%w: %q, or it does not serve the model %q; GET /upstreams lists them", ErrNoUpstream, upstream, model)
	}
	c.entry.Subject = upstream
	var after Steering
	c.answers(func(*store.Query) (any, error) { return after, nil })
	err := s.ChangeSetting(steeringName, store.ChangeSteering, func(old []byte) ([]byte, error) {
		list, err := steeringIn(old)
		if err != nil {
			return nil, err
		}
		before, err := json.Marshal(SteeredOf(list, upstream, model))
		if err != nil {
			return nil, err
		}
		c.entry.Before = string(before)
		list = slices.DeleteFunc(list, isThere)
		if state != Serving {
			list = append(list, Steering{upstream, model, state, fromMicro(l.now() / 1000), c.By.Name, c.Reason})
		}
		if len(list) > steeringMost {
			return nil, fmt.Errorf("%d upstreams and models are drained, which is the most: resume one first", steeringMost)
		}
		after = SteeredOf(list, upstream, model)
		return json.Marshal(list)
	})
	if err != nil {
		return Steering{}, err
	}
	return after, l.readSteering()
}
