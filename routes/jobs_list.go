package routes

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"slices"
	"strconv"
	"strings"

	"farebox/billing"
	"farebox/billing/job"
	"farebox/billing/store"
	"farebox/config"
	"farebox/proxy/jsontext"
)

// The list of an account's jobs is an addition to the specification: a client that lost the
// answer to an order finds its queue_id there.

// byJobLists limits an account's requests for the list.
var byJobLists = &RateClass{Name: "jobs", Rate: func(cfg *config.Config) (*config.Rate, bool) {
	return &config.Rate{RPM: 120}, cfg.MakesJobs()
}}

const (
	placeBytes  = 8 + 16 // a time in microseconds, and a UUID
	cursorChars = placeBytes / 3 * 4
)

// jobsParams are those of GET /jobs.
var jobsParams = Params{
	"type":   {Kinds: String, Enum: config.JobNames()},
	"status": {Kinds: String, Enum: []string{JobProcessing, JobCompleted, JobFailed}},
	"model":  {Kinds: String, Characters: 256},
	"limit":  {Kinds: Number, Integer: true, Min: 1, Max: 100, Default: 50},
	"cursor": {Kinds: String, Length: cursorChars, Format: "nextCursor"},
}

// jobList is the endpoint of an account's jobs.
type jobList struct{ g *Gateway }

// Open is Capability.
func (l *jobList) Open(*Gateway) []Row {
	return []Row{{Method: "GET", Path: "/jobs", Access: Bearer, Wallet: true, Rate: byJobLists, Params: jobsParams,
		Offered: (*config.Config).MakesJobs, Serve: l.serve}}
}

// serve lists the jobs of the account, newest first, without those that were released or have
// expired.
func (l *jobList) serve(c *Call) *Error {
	q := c.Query()
	wanted, behind := jobFilter(c, q), jobPlace(q)
	most := int(q.Integer("limit"))
	if e := q.Refusal(); e != nil {
		return e
	}
	if d := c.Count(byJobLists, 1); d.Code != billing.Admitted {
		return c.Overrun(byJobLists, &d, c.Row.Path)
	}
	list, next, err := l.g.jobs.List(c.Key.Account.No(), behind, most, wanted)
	if err != nil {
		c.g.log.Error().Err(err).Msg("jobs could not be listed")
		return jobsAway()
	}
	b := []byte(`{"data":[`)
	for _, v := range list {
		b = append(appendJob(jsontext.Comma(b), v, c.Config().Compat.JobStatus), '}')
	}
	b = append(b, `],"nextCursor":`...)
	if next == (store.JobPlace{}) {
		return c.WriteJSON(append(b, "null}"...))
	}
	return c.WriteJSON(append(jsontext.AppendString(b, jobCursor(next)), '}'))
}

// appendJob appends the members of one job, without its end.
func appendJob(b []byte, v *job.View, form string) []byte {
	b = append(b, jobStatus(form, stateOf(v.State))...)
	b = jsontext.Object(b).Text("id", v.ID).Text("queue_id", v.ID).Text("type", v.Kind).Text("model", v.Model).
		Text("created_at", v.Began.UTC().Format(isoMillis))
	if v.Priced { // in USD or in the currency in its place, as quotes are
		b = append(append(b, `,"price":`...), v.Price.String()...)
	}
	if v.State.Terminal() {
		b = jsontext.Object(b).Text("expires_at", v.ExpiresAt.UTC().Format(isoMillis))
	}
	if v.Failed() {
		b = jsontext.Object(b).Bool("credits_refunded", v.Refunded)
	}
	return b
}

// stateOf is a state as customers know it.
func stateOf(s store.JobState) string {
	switch s {
	case store.JobCompleted:
		return JobCompleted
	case store.JobFailed:
		return JobFailed
	}
	return JobProcessing
}

// jobFilter selects the wanted jobs. A model is known by its id, by the name under which a job
// was ordered, and by the current meaning of that name.
func jobFilter(c *Call, q *Query) func(*store.JobRow) bool {
	kind, status, model := q.Choice("type"), q.Choice("status"), q.Short("model")
	names := []string{model}
	for _, kind := range config.JobNames() {
		if m, _ := c.Catalog().Resolve([]byte(model), kind); m != nil {
			names = append(names, m.ID)
		}
	}
	return func(r *store.JobRow) bool {
		return (kind == "" || r.Kind == kind) && (status == "" || stateOf(r.State) == status) &&
			(model == "" || r.Named == model || slices.Contains(names, r.Model))
	}
}

// jobCursor is a place as text. It needs no signature: only the caller's jobs are looked at.
func jobCursor(at store.JobPlace) string {
	b := binary.BigEndian.AppendUint64(make([]byte, 0, placeBytes), uint64(at.CreatedUs))
	b, _ = hex.AppendDecode(b, []byte(strings.ReplaceAll(at.ID, "-", "")))
	return base64.RawURLEncoding.EncodeToString(b)
}

// jobPlace reads where a page begins.
func jobPlace(q *Query) (at store.JobPlace) {
	text, given := q.Text("cursor")
	if !given {
		return at
	}
	raw, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || len(raw) != placeBytes || raw[0] >= 0x80 {
		q.Wrong(Issue{Code: "invalid_string", Path: "cursor", Message: "cursor must be " + strconv.Itoa(cursorChars) +
			" characters, as nextCursor gave it."})
		return at
	}
	return store.JobPlace{CreatedUs: int64(binary.BigEndian.Uint64(raw)), ID: formatUUID(raw[8:])}
}
