package audio

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"farebox/billing/money"
	"farebox/billing/store"
	"farebox/config"
	"farebox/providers"
	"farebox/providers/audio"
	"farebox/providers/audio/container"
	"farebox/proxy"
	"farebox/proxy/jsontext"
	"farebox/proxy/scan"
	"farebox/routes"
)

const (
	// maxSample is the largest sample, minutes of any format, and mostSample the largest form
	// with one.
	maxSample = 25 << 20
	// cloneLimit is how long upstreams may take, and clonePatience the time of a request for all
	// else.
	cloneLimit    = 5 * time.Minute
	clonePatience = time.Minute
	// noteEvery is how often the use of a voice is written down.
	noteEvery = time.Hour
)

func mostSample(*config.Config) int { return maxSample + 64<<10 }

var voiceBook = routes.NewRulebook(
	scan.NewShape(scan.Member{Name: "file"}, scan.Member{Name: "model"}),
	map[string]*routes.Rule{
		"file":  {Kinds: routes.String, Required: true, NonEmpty: true, Format: "binary"},
		"model": {Kinds: routes.String, Required: true, NonEmpty: true},
	})

// cloning is one request for a voice (addendum 9.2).
type cloning struct {
	owner  *Capability
	call   *routes.Call
	v      routes.Validator
	file   []byte
	model  string
	spec   *config.VoiceCloning
	sample audio.Sample
	made   *audio.Cloning
	sale   routes.Flat
}

// serveVoices answers POST /audio/voices.
func (ca *Capability) serveVoices(c *routes.Call) *routes.Error {
	v := &cloning{owner: ca, call: c}
	if e := v.readFields(); e != nil {
		return e
	}
	if e := v.choose(); e != nil {
		return e
	}
	v.sale = routes.Flat{Held: v.lines, Do: v.clone}
	return c.SellFlat(&v.sale, routes.Terms{Patience: cloneLimit + clonePatience, Writes: true})
}

// readFields reads the form.
func (cl *cloning) readFields() *routes.Error {
	parts, e := cl.call.ReadForm()
	if e != nil {
		return e
	}
	seen := map[string]bool{}
	for i := range parts {
		p := &parts[i]
		name := routes.Excerpt([]byte(p.Name))
		switch {
		case seen[p.Name]:
			cl.v.Add(routes.Issue{Code: "custom", Named: name, Message: name + ": is given more than once."})
		case p.Name == "file" && p.IsFile:
			cl.file = p.Content
		case p.Name == "model" && !p.IsFile:
			cl.model = string(p.Content)
		case p.Name == "file":
			cl.v.Add(routes.Issue{Code: "invalid_type", Path: "file", Expected: "file", Received: "string",
				Message: "file: expected a file with a filename, received a field."})
		default:
			cl.v.Unrecognized("", p.Name)
		}
		seen[p.Name] = true
	}
	if !seen["file"] {
		cl.v.Missing("file", "file", "is required.")
	}
	if cl.model == "" {
		cl.v.Missing("model", "string", "is required.")
	}
	if len(cl.file) > maxSample {
		return &routes.Error{Status: 413, Code: "PAYLOAD_TOO_LARGE", Uncounted: true,
			Message: "The sample is too large; at most " + config.Size(maxSample).String() + " are taken."}
	}
	return nil
}

// choose finds the model, which must take samples.
func (cl *cloning) choose() *routes.Error {
	if cl.model == "" {
		if e := cl.call.CheckFailures(); e != nil {
			return e
		}
		return routes.Invalid(cl.v.Issues...)
	}
	model, match := cl.call.Catalog().Resolve([]byte(cl.model), "tts")
	if e := cl.call.UseModel([]byte(cl.model), "tts", model, match, cl.v.Issues); e != nil {
		return e
	}
	if cl.spec = model.Config.Spec.(*config.Speech).VoiceCloning; cl.spec == nil {
		return routes.Unsupported("model", "Model "+model.ID+" does not clone voices.")
	}
	return nil
}

// listen finds the sample's type by its bytes, whatever its name.
func (cl *cloning) listen() *routes.Error {
	wrong := func(text string) *routes.Error {
		return routes.Invalid(routes.Issue{Code: "custom", Path: "file", Message: "file: " + text})
	}
	sound, err := container.Read(cl.file)
	switch {
	case err != nil:
		return wrong(err.Error() + ".")
	case !slices.Contains(cl.spec.AcceptedFormats, sound.Format):
		return wrong("model " + cl.call.Model.ID + " takes samples as " + strings.Join(cl.spec.AcceptedFormats, ", ") + ", not " +
			sound.Format + ".")
	case sound.Codec == "":
		return wrong("the file has no sound.")
	case sound.Length < time.Duration(cl.spec.MinSampleSeconds)*time.Second:
		return wrong("the sample must be at least " + strconv.FormatInt(cl.spec.MinSampleSeconds, 10) + " seconds long, is " +
			strconv.FormatFloat(sound.Length.Seconds(), 'f', 1, 64) + ".")
	}
	kind := containerTypes[sound.Format]
	cl.sample = audio.Sample{Model: cl.call.Model.ID, File: cl.file, Name: "sample." + kind[0], Type: kind[1]}
	return nil
}

// lines are the fee.
func (cl *cloning) lines() (l money.Lines) {
	l.Add(money.VoiceClones, 1, money.Pico(*cl.spec.Price))
	return l
}

// clone has the voice cloned, whether or not its client stays, and keeps it.
func (cl *cloning) clone() *routes.Error {
	c, voices := cl.call, cl.owner.gateway.Voices()
	account := c.Key.Account.No()
	if e := cl.ready(voices, account); e != nil {
		c.NothingDone()
		return e
	}
	id := newVoice()
	cl.sample.Label = "farebox " + id[len(config.VoiceHandle):][:8]
	cl.made = &audio.Cloning{Whole: audio.Whole{Proxy: c.Proxy(), ID: c.ID[:], Limit: cloneLimit}, Sample: &cl.sample}
	cl.made.Do(providers.SoundTargets(c.Model, nil), c.Key.Account.Number())
	c.Attempts, c.Tried = cl.made.Attempts, cl.made.Tried
	if cl.made.By != nil {
		c.Upstream, c.Router = cl.made.By.Upstream, cl.made.By.Router
	}
	if cl.made.Voice == "" {
		if !cl.made.Begun {
			c.NothingDone()
		}
		return cl.failed()
	}
	now := time.Now()
	row := &store.VoiceRow{ID: id, Account: account, Model: c.Model.ID, Upstream: cl.made.By.Upstream, Voice: cl.made.Voice,
		CreatedUs: now.UnixMicro(), UsedUs: now.UnixMicro(), ExpiresUs: expiry(cl.spec, now).UnixMicro()}
	if err := voices.AddVoice(row); err != nil {
		if audio.Forget(c.Proxy(), cl.made.By, cl.made.Voice) {
			c.NothingDone()
		}
		if errors.Is(err, store.ErrManyVoices) {
			return manyVoices()
		}
		c.Logger().Error().Err(err).Bytes("request_id", c.ID[:]).Msg("a cloned voice could not be kept")
		return voicesAway()
	}
	c.Sold = routes.FlatBill(cl.lines(), 0)
	body := jsontext.Object("{").Text("id", id)
	cl.sale.Answer.Body = append(jsontext.AppendString(append(body, `,"model":`...), c.Model.ID), '}')
	return nil
}

// ready checks the sample and the account's voices, before anything is sent.
func (cl *cloning) ready(voices store.VoiceStore, account uint32) *routes.Error {
	if e := cl.listen(); e != nil {
		return e
	}
	list, err := voices.Voices(account)
	switch {
	case err != nil:
		return voicesAway()
	case living(list, time.Now().UnixMicro()) >= store.MaxVoices:
		return manyVoices()
	}
	return nil
}

// living is how many voices have not expired: those that an upstream does not delete are
// listed for longer.
func living(list []*store.VoiceRow, nowUs int64) (n int) {
	for _, row := range list {
		if row.ExpiresUs > nowUs {
			n++
		}
	}
	return n
}

// expiry is when a voice expires that is made or used now. One whose time begins anew with
// each use has more of it, since not every use is written down.
func expiry(of *config.VoiceCloning, now time.Time) time.Time {
	if of.Mode == "persistent" {
		now = now.Add(noteEvery)
	}
	return now.Add(of.Retention)
}

// newVoice is a handle that nobody guesses.
func newVoice() string {
	var b [16]byte
	_, _ = rand.Read(b[:])
	return config.VoiceHandle + hex.EncodeToString(b[:])
}

func voicesAway() *routes.Error {
	return &routes.Error{Status: 503, RetryAfter: routes.RetrySoon,
		Message: "Voices cannot be read or kept at the moment; nothing was charged. Please retry."}
}

func manyVoices() *routes.Error {
	text := "This account has " + strconv.Itoa(store.MaxVoices) + " cloned voices, which is the most; they expire with time."
	return &routes.Error{Status: 429, Code: "RATE_LIMIT_EXCEEDED", Message: text, Custom: text, RetryAfter: time.Hour}
}

// failed is the answer when nobody took the voice.
func (cl *cloning) failed() *routes.Error {
	c := cl.call
	if cl.made.Cause != proxy.None {
		c.Cause = cl.made.Cause.String()
		return c.Unreachable(&proxy.Result{Cause: cl.made.Cause})
	}
	c.Cause = "upstream_status"
	refusal := &cl.made.Failure
	e := &routes.Error{Status: refusal.Status, Code: refusal.Code, Message: refusal.Message, RetryAfter: refusal.RetryAfter}
	e.RequestID = e.Status == 400
	return e
}

// useClone takes a voice of the account's own. One of another account is as unknown as
// one that never was.
func (s *speech) useClone(name string) *routes.Error {
	now := time.UnixMicro(s.call.StartNs / 1000)
	voices := s.owner.gateway.Voices()
	row, err := voices.Voice(s.call.Key.Account.No(), name, now.UnixMicro())
	switch {
	case errors.Is(err, store.ErrNoRow) || err == nil && row.Model != s.call.Model.ID || s.spec.VoiceCloning == nil:
		return s.unknownVoice(name)
	case err != nil:
		return voicesAway()
	}
	s.speech.Voice, s.speech.Cloned, s.clonedAt = row.Voice, true, row.Upstream
	if s.spec.VoiceCloning.Mode == "persistent" && now.Sub(time.UnixMicro(row.UsedUs)) > noteEvery {
		s.unnoted = row.ID
	}
	return nil
}

// noteClone writes down that a voice is used, for a request that was admitted.
func (s *speech) noteClone() *routes.Error {
	if s.unnoted == "" {
		return nil
	}
	now := time.UnixMicro(s.call.StartNs / 1000)
	until := expiry(s.spec.VoiceCloning, now).UnixMicro()
	if err := s.owner.gateway.Voices().TouchVoice(s.unnoted, now.UnixMicro(), until); err != nil {
		return voicesAway()
	}
	return nil
}
