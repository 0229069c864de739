package store

import "strings"

// Filters of the lists of operators. Zero fields select all.
type (
	// JobFilter selects jobs.
	JobFilter struct {
		Account      uint32
		Model        string
		FromUs, ToUs int64 // of their creation
		Behind       JobPlace
	}
	// KeyFilter selects keys.
	KeyFilter struct {
		Account uint32
		Last    string // characters at the end of the secret
		Live    bool   // neither revoked nor expired at NowUs
		NowUs   int64
		After   int64 // keys with larger numbers
	}
)

// behind is a place in a list, for listing; nil for the zero one.
func (p JobPlace) behind() []any {
	if p == (JobPlace{}) {
		return nil
	}
	return []any{p.CreatedUs, p.ID}
}

// FindJobs lists jobs, the latest first. next is where the list continues; nil: at its end.
func (s *sqlStore) FindJobs(f JobFilter, most int) (rows []*JobRow, next *JobRow, err error) {
	l := listing[JobRow]{text: jobs.brief, order: "created_us, id", down: true, scan: jobs.scan, behind: f.Behind.behind(),
		place: func(r *JobRow) []any { return r.Place().behind() }, matches: f.matches}
	l.add("account = ", f.Account, f.Account != 0)
	l.add("model = ", f.Model, f.Account == 0 && f.Model != "")
	l.within("created_us", f.FromUs, f.ToUs)
	return l.readPage(s, most)
}

func (f *JobFilter) matches(r *JobRow) bool { return f.Model == "" || r.Model == f.Model }

// FindReviews lists reviews of a character, or of all, hidden ones included, the latest first. next
// is where the list continues; nil: at its end.
func (s *sqlStore) FindReviews(slug string, behind JobPlace, most int) (rows []*ReviewRow, next *ReviewRow, err error) {
	l := listing[ReviewRow]{text: reviews.brief, order: "r.created_us, r.id", down: true, scan: reviews.scan, behind: behind.behind(),
		place: func(r *ReviewRow) []any { return []any{r.CreatedUs, r.ID} }}
	l.add("r.slug = ", slug, slug != "")
	return l.readPage(s, most)
}

// KeysOf lists keys by their numbers. next is where the list continues; nil: at its end.
func (s *sqlStore) KeysOf(f KeyFilter, most int) (rows []*KeyRow, next *KeyRow, err error) {
	l := listing[KeyRow]{text: keys.brief, order: "k.no", scan: keys.scan, place: (*KeyRow).place, matches: f.matches}
	switch {
	case len(f.Last) == lastCharacters:
		l.add("k.last6 = ", f.Last, true)
	case f.Account != 0:
		l.add("k.account = ", f.Account, true)
	}
	if f.After != 0 {
		l.behind = []any{f.After}
	}
	return l.readPage(s, most)
}

func (r *KeyRow) place() []any { return []any{r.No} }

func (f *KeyFilter) matches(r *KeyRow) bool {
	return (f.Account == 0 || r.Account == f.Account) && strings.HasSuffix(r.Last6, f.Last) &&
		(!f.Live || r.RevokedUs == 0 && (r.ExpiresUs == 0 || r.ExpiresUs > f.NowUs))
}

// lastCharacters is how many characters of a secret are stored.
const lastCharacters = 6
