package store

import "fmt"

// Filters of the lists of operators. Zero fields select all.
type (
	// JobFilter selects jobs.
	JobFilter struct {
		Account      uint32
		Model        string
		State        JobState
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

// FindJobs lists jobs, the latest first.
func (s *sqlStore) FindJobs(f JobFilter, most int) ([]*JobRow, error) {
	var w where
	w.add("account = ", f.Account, f.Account != 0)
	w.add("model = ", f.Model, f.Model != "")
	w.add("state = ", int64(f.State), f.State != 0)
	w.add("created_us >= ", f.FromUs, f.FromUs != 0)
	w.add("created_us < ", f.ToUs, f.ToUs != 0)
	w.behind("created_us", f.Behind.CreatedUs, "id <", f.Behind.ID)
	return jobs.list(s, w.text("created_us DESC, id DESC", most), w.args...)
}

// FindReviews lists reviews of a character, or of all, hidden ones included, the latest first.
func (s *sqlStore) FindReviews(slug string, behind JobPlace, most int) ([]*ReviewRow, error) {
	var w where
	w.add("r.slug = ", slug, slug != "")
	w.behind("r.created_us", behind.CreatedUs, "r.id <", behind.ID)
	return reviews.list(s, w.text("r.created_us DESC, r.id DESC", most), w.args...)
}

// KeysOf lists keys by their numbers.
func (s *sqlStore) KeysOf(f KeyFilter, most int) ([]*KeyRow, error) {
	var w where
	w.add("k.account = ", f.Account, f.Account != 0)
	w.add("k.no > ", f.After, f.After != 0)
	w.add("k.last6 = ", f.Last, len(f.Last) == lastCharacters)
	w.add("k.last6 LIKE ", "%"+f.Last, f.Last != "" && len(f.Last) < lastCharacters)
	w.add("k.revoked_us = 0 AND (k.expires_us = 0 OR k.expires_us > ", f.NowUs, f.Live)
	if f.Live {
		w.terms[len(w.terms)-1] += ")"
	}
	return keys.list(s, w.text("k.no", most), w.args...)
}

// lastCharacters is how many characters of a secret are stored.
const lastCharacters = 6

// behind continues a list that goes back in time behind a place; id is compared as said.
func (w *where) behind(time string, us int64, id, last string) {
	if us == 0 && last == "" {
		return
	}
	w.args = append(w.args, us, last)
	n := len(w.args)
	w.terms = append(w.terms, fmt.Sprintf("%[1]s <= $%[2]d AND (%[1]s < $%[2]d OR %[3]s $%[4]d)", time, n-1, id, n))
}
