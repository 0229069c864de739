package characters

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/rs/zerolog"

	"farebox/billing"
	"farebox/config"
	"farebox/providers"
	"farebox/routes"
)

// Capability is the type that main registers. It is routes.Characters, too.
type Capability struct {
	audience routes.Audience
	log      *zerolog.Logger
	serving  atomic.Pointer[view] // for the metrics
}

// New makes the capability.
func New() *Capability { return &Capability{} }

// Open is routes.Capability.
func (c *Capability) Open(g *routes.Gateway) []routes.Row {
	c.audience, c.log = g.Audience(), g.Logger()
	count := func(n func(*config.CharacterSet) int) func() float64 {
		return func() float64 {
			if v := c.serving.Load(); v != nil && v.folder != nil {
				return float64(n(v.folder.Set()))
			}
			return 0
		}
	}
	g.Metrics().NewGauge("farebox_characters", count(func(s *config.CharacterSet) int { return len(s.List) }))
	g.Metrics().NewGauge("farebox_character_files_wrong", count(func(s *config.CharacterSet) int { return len(s.Wrong) }))
	return []routes.Row{
		{Method: "GET", Path: "/characters", Access: routes.Bearer, Form: routes.NoBody, Params: listParams,
			Serve: c.list},
		{Method: "GET", Path: "/characters/{slug}", Access: routes.Bearer, Form: routes.NoBody, Serve: c.one},
		{Method: "GET", Path: "/characters/{slug}/reviews", Access: routes.Bearer, Form: routes.NoBody,
			Params: reviewParams, Serve: c.reviews},
		// Without a key: browsers show pictures where they are in a page.
		{Method: "GET", Path: "/characters/{slug}/photo", Access: routes.Public, Form: routes.NoBody,
			Limit: routes.SmallBody, Serve: c.photo},
	}
}

// view is the folder under one config.
type view struct {
	folder *config.CharacterFolder // nil: there are no characters
	system string                  // the operator's own prompt
	public string                  // precedes the paths of pictures; empty: it is not known

	live   atomic.Pointer[snapshot]
	making sync.Mutex
}

// Load is routes.Loader. A folder that is the same one goes on, and is looked at: a
// reload may be how an operator has it read where nothing tells of changes.
func (c *Capability) Load(cfg *config.Config, _ *providers.Catalog, before any) (routes.View, error) {
	v := &view{system: cfg.SystemPrompt, public: cfg.PublicAddress()}
	v.live.Store(&snapshot{set: &config.CharacterSet{}, stats: &billing.CharacterStats{}})
	old, _ := before.(*view)
	switch {
	case cfg.Characters == nil:
	case old != nil && old.folder != nil && old.folder.Bounds().Same(cfg.Characters):
		v.folder = old.folder
		v.folder.Look()
	default:
		v.folder = config.OpenCharacters(cfg.Characters, c.say)
	}
	return routes.View{Own: v, Headers: pageHeaders, Serve: func() { c.serve(v) }, Close: func(other any) {
		if next, _ := other.(*view); v.folder != nil && (next == nil || next.folder != v.folder) {
			v.folder.Close()
		}
	}}, nil
}

// serve begins the watch of a folder that is being served.
func (c *Capability) serve(v *view) {
	c.serving.Store(v)
	if v.folder != nil {
		v.folder.Watch()
		c.audience.ServeCharacters()
	}
}

func (c *Capability) say(msg string, err error) {
	if err != nil {
		c.log.Error().Err(err).Msg(msg)
		return
	}
	c.log.Info().Msg(msg)
}

// Prompt is routes.Characters.
func (ca *Capability) Prompt(c *routes.Call, slug string, operators bool) (prompt []byte, found bool) {
	r := ca.snapshot(c).views[slug]
	switch {
	case r == nil:
		return nil, false
	case operators:
		return r.behind, true
	}
	return r.alone, true
}

// Used is routes.Characters.
func (ca *Capability) Used(c *routes.Call, slug string) {
	if r := ca.snapshot(c).views[slug]; r != nil {
		ca.audience.NoteCharacter(c.Key, r.Slug)
	}
}

// snapshot is the current snapshot: the folder with its statistics.
func (ca *Capability) snapshot(c *routes.Call) *snapshot {
	v := c.Own(ca).(*view)
	s := v.live.Load()
	if v.folder == nil || s.holds(v.folder.Set(), ca.audience.CharacterStats(), c.Began) {
		return s
	}
	v.making.Lock()
	defer v.making.Unlock()
	set, stats := v.folder.Set(), ca.audience.CharacterStats()
	if s = v.live.Load(); !s.holds(set, stats, c.Began) {
		s = newSnapshot(ca, v, s, set, stats, c.Began)
		v.live.Store(s)
	}
	return s
}

// characterView is a character as it is served.
type characterView struct {
	*config.Character
	alone, behind []byte // its prompt, and that behind the operator's
	head, tail    []byte // JSON of its record before and behind its stats
	text          string // that is searched, in lower case
	tags          []string
	categories    []string
	sum           billing.CharacterSum
}

// newView makes the parts that depend only on the file and the config.
func newView(ca *Capability, v *view, c *config.Character) *characterView {
	r := &characterView{Character: c, alone: []byte(c.Prompt.Reveal())}
	r.behind = r.alone
	if v.system != "" {
		r.behind = slices.Concat([]byte(v.system), []byte("\n\n"), r.alone)
	}
	r.index()
	r.render(v.public, ca.audience.Pseudonym("authors", c.Author))
	return r
}
