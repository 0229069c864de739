package account

import (
	"encoding/json"
	"errors"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"farebox/billing"
	"farebox/billing/money"
	"farebox/billing/store"
	"farebox/config"
	"farebox/proxy/scan"
	"farebox/routes"
)

// Members of the bodies about keys, as ids of keyShape. Every name that has
// two spellings (addendum D23) takes two ids, the documentation's first.
const (
	keyID = iota
	keyType
	keyTypeSnake
	keyDescription
	keyExpires
	keyExpiresSnake
	keyLimit
	keyLimitSnake
	keyPeriod
	keyPeriodSnake
	keyPrivacy
	keyPrivacySnake
	keyAddress
	keySignature
	keyToken
	keyMembers
)

var keyNames = [keyMembers]string{
	"id", "apiKeyType", "api_key_type", "description", "expiresAt", "expires_at", "consumptionLimit",
	"consumption_limit",
	"limitPeriod", "limit_period", "modelPrivacy", "model_privacy", "address", "signature", "token",
}

// Members of consumptionLimit.
const (
	limitUSD = iota
	limitDIEM
	limitVCU
)

// maxKeyText bounds each text in a body; a token has about 300 bytes.
const maxKeyText = 4 << 10

var (
	keyTypes     = []string{"INFERENCE", "ADMIN"}
	keyPeriods   = []string{"EPOCH", "MONTH", "LIFETIME"}
	keyPrivacies = []string{"ALL", "PRIVATE_TEXT", "PRIVATE_ONLY"}
)

// keyBook describes bodies about a key. One Shape serves all operations, so that a member of
// another operation is refused by its name like any other.
var keyBook = newKeyBook()

func newKeyBook() *routes.Rulebook {
	limits := scan.NewShape(scan.Members(nil, "usd", "diem", "vcu")...)
	members := make([]scan.Member, keyMembers)
	rules := map[string]*routes.Rule{}
	text := &routes.Rule{Kinds: routes.String, Length: maxKeyText}
	date := &routes.Rule{Kinds: routes.String, Length: maxKeyText, Format: "date, date-time or empty"}
	for id, name := range keyNames {
		members[id].Name = name
		switch id {
		case keyType, keyTypeSnake:
			rules[name] = &routes.Rule{Kinds: routes.String, Enum: keyTypes}
		case keyPeriod, keyPeriodSnake:
			rules[name] = &routes.Rule{Kinds: routes.String, Enum: keyPeriods}
		case keyPrivacy, keyPrivacySnake:
			rules[name] = &routes.Rule{Kinds: routes.String, Enum: keyPrivacies}
		case keyLimit, keyLimitSnake:
			members[id].Child = limits
			rules[name] = &routes.Rule{Kinds: routes.Object}
			for i := range limits.Len() {
				rules[name+"."+limits.Name(i)] = &routes.Rule{Kinds: routes.Number}
			}
		case keyExpires, keyExpiresSnake:
			rules[name] = date
		case keyDescription:
			rules[name] = &routes.Rule{Kinds: routes.String, Length: maxKeyText, Characters: 64} // addendum 16.1
		default:
			rules[name] = text
		}
	}
	return routes.NewRulebook(scan.NewShape(members...), rules)
}

// keyBody is a body about a key.
type keyBody struct {
	id, address, signature, token string
	typ                           store.KeyType // 0: not given
	change                        billing.KeyChange
}

// The operations: which members their bodies may and must have.
var (
	creationMembers = []int{
		keyType, keyTypeSnake, keyDescription, keyExpires, keyExpiresSnake, keyLimit, keyLimitSnake,
		keyPeriod, keyPeriodSnake, keyPrivacy, keyPrivacySnake,
	}
	keyCreation = keyBook.Only(creationMembers, nil)
	// strictCreation is the documentation's reading (addendum D55).
	strictCreation = keyBook.Only(creationMembers, []int{keyType, keyDescription})
	keyUpdate      = keyBook.Only(append([]int{keyID}, creationMembers[2:]...), []int{keyID})
	keyDeletion    = keyBook.Only([]int{keyID}, nil)
	web3Creation   = keyBook.Only(
		append([]int{keyAddress, keySignature, keyToken}, creationMembers...),
		[]int{keyType, keyAddress, keySignature, keyToken},
	)
)

// creationRules are those of POST /api_keys.
func creationRules(cfg *config.Config) *routes.Rulebook {
	if cfg.Compat.StrictAPIKeys {
		return strictCreation
	}
	return keyCreation
}

// snake is the other spelling of a member, or the member itself.
func snake(id int) int {
	switch id {
	case keyType, keyExpires, keyLimit, keyPeriod, keyPrivacy:
		return id + 1
	}
	return id
}

// validator is routes.Validator for bodies about keys.
type validator struct{ routes.Validator }

// readKeyBody reads a strict body about a key: every member is one that the
// operation takes, once, in one of its spellings.
func readKeyBody(c *routes.Call) (*keyBody, *routes.Error) {
	if n, most := len(c.Ctx.Request.Body()), c.MostBody(); n > most {
		return nil, &routes.Error{Status: 413, Code: "PAYLOAD_TOO_LARGE",
			Message: "The request body is too large: at most " + strconv.Itoa(most) + " bytes are taken here, it has " +
				strconv.Itoa(n) + "."}
	}
	book := c.Rules()
	if e := c.ReadJSON(book.Root); e != nil {
		return nil, e
	}
	v := validator{routes.Validator{Body: c.Body, Doc: &c.Doc, Book: book}}
	b := &keyBody{}
	v.CheckAll()
	if v.checkTakes(); len(v.Issues) == 0 {
		b.read(&v, c.Began)
	}
	if len(v.Issues) > 0 {
		return nil, routes.Invalid(v.Issues...)
	}
	return b, nil
}

// checkTakes refuses two spellings of one member, and asks for the members that the operation
// needs.
func (v *validator) checkTakes() {
	for id, name := range keyNames {
		at := v.Doc.TopIndex(id)
		if at < 0 {
			continue
		}
		if other := snake(id); other != id && v.Doc.TopIndex(other) >= 0 {
			v.Wrong(name, "is given as "+keyNames[other]+" too; give one of them.")
		}
		if limits := keyBook.Root.Child(id); limits != nil && v.Doc.Fields[at].Kind == scan.Object {
			v.CheckMembers(v.Doc.Fields[at].Raw(v.Body), limits, name)
		}
	}
	for _, id := range v.Book.Needs {
		if v.Member(-1, id) == nil && v.Member(-1, snake(id)) == nil {
			v.Missing(keyNames[id], "string", "is required.")
		}
	}
}

// read takes the values over. Kinds and enumerations are checked already.
func (b *keyBody) read(v *validator, now time.Time) {
	b.id, b.address, b.signature, b.token = v.decoded(keyID), v.decoded(keyAddress), v.decoded(keySignature),
		v.decoded(keyToken)
	if text := v.either(keyType); text != nil {
		b.typ, _ = store.ParseKeyType(string(text))
	}
	if f := v.Member(-1, keyDescription); f != nil {
		text := v.decoded(keyDescription)
		b.change.Description = &text
		n, most := utf8.RuneCountInString(text), v.Book.Rule(v.Book.Root, keyDescription).Characters
		switch limit := strconv.Itoa(most); {
		case n > most:
			v.Add(routes.Issue{Code: "too_big", Path: "description", Maximum: limit,
				Message: "description: must be at most " + limit + " characters, has " + strconv.Itoa(n) + "."})
		case strings.ContainsFunc(text, unicode.IsControl):
			v.Add(routes.Issue{Code: "invalid_string", Path: "description",
				Message: "description: must not contain control characters."})
		}
	}
	if text := v.either(keyPeriod); text != nil {
		p, _ := store.ParsePeriod(string(text))
		b.change.Period = &p
	}
	if text := v.either(keyPrivacy); text != nil {
		p, _ := store.ParseModelPrivacy(string(text))
		b.change.Privacy = &p
	}
	b.readExpiry(v, now)
	b.readLimits(v)
}

// either is the text of a member in whichever spelling it has.
func (v *validator) either(id int) []byte {
	if text := v.Text(-1, id); text != nil {
		return text
	}
	return v.Text(-1, snake(id))
}

// decoded is the string of a member without its escapes.
func (v *validator) decoded(id int) (text string) {
	f := v.Member(-1, id)
	if f == nil {
		return ""
	}
	raw := f.Raw(v.Body)
	if !utf8.Valid(raw) || json.Unmarshal(raw, &text) != nil {
		v.Add(routes.Issue{Code: "invalid_string", Path: keyNames[id],
			Message: keyNames[id] + ": is not valid UTF-8 text."})
	}
	return text
}

// given finds a member in whichever spelling it is written, null included; -1
// when it is absent, which leaves a key's value as it is.
func (v *validator) given(id int) (at int32, name string) {
	if at = v.Doc.TopIndex(id); at >= 0 {
		return at, keyNames[id]
	}
	return v.Doc.TopIndex(snake(id)), keyNames[snake(id)]
}

// expiryForm is what addendum 16.2 lists, and RFC 3339 offsets.
var expiryForm = regexp.MustCompile(`^\d{4}-\d\d-\d\d(T\d\d:\d\d:\d\d(\.\d{1,9})?(Z|[+-]\d\d:\d\d))?$`)

// readExpiry reads expiresAt: a moment, a UTC day (its beginning), or "" or
// null for never.
func (b *keyBody) readExpiry(v *validator, now time.Time) {
	at, name := v.given(keyExpires)
	if at < 0 {
		return
	}
	var when time.Time
	raw := v.Doc.Fields[at].Raw(v.Body)
	if text := string(raw); text != "null" && text != `""` {
		text = text[1 : len(text)-1]
		layout := time.RFC3339Nano
		if len(text) == len(time.DateOnly) {
			layout = time.DateOnly
		}
		parsed, err := time.Parse(layout, text)
		if err != nil || !expiryForm.MatchString(text) {
			v.Add(routes.Issue{Code: "invalid_string", Path: name, Received: routes.Excerpt([]byte(text)),
				Message: name + ": " + routes.Excerpt([]byte(text)) +
					" is not a date; expected YYYY-MM-DD, YYYY-MM-DDThh:mm:ss(.mmm)Z, or empty for never."})
			return
		}
		if when = parsed.UTC(); !when.After(now) {
			v.Add(routes.Issue{Code: "too_small", Path: name,
				Message: name + ": " + routes.Excerpt([]byte(text)) + " is over; expected a time to come."})
			return
		}
	}
	b.change.ExpiresAt = &when
}

// readLimits reads consumptionLimit. null means no limit, for all of it or for
// one currency; vcu is the legacy label of diem and yields to it.
func (b *keyBody) readLimits(v *validator) {
	at, name := v.given(keyLimit)
	if at < 0 {
		return
	}
	if v.Doc.Fields[at].Kind == scan.Null {
		b.change.USD, b.change.DIEM = &money.Limit{}, &money.Limit{}
		return
	}
	read := func(id int, parse func(string) (money.Limit, error)) *money.Limit {
		i := v.Doc.Member(at, id)
		if i < 0 {
			return nil
		}
		f := &v.Doc.Fields[i]
		if f.Kind == scan.Null {
			return &money.Limit{}
		}
		limit, err := parse(string(f.Raw(v.Body)))
		if err != nil {
			path := name + "." + f.Shape.Name(id)
			issue := routes.Issue{Code: "custom", Path: path,
				Message: path + ": " + err.Error() + ", is " + routes.Excerpt(f.Raw(v.Body)) +
					"; expected 0 to 9999999999, or null for no limit."}
			switch {
			case errors.Is(err, money.ErrLimitNegative):
				issue.Code, issue.Minimum = "too_small", "0"
			case errors.Is(err, money.ErrLimitTooLarge):
				issue.Code, issue.Maximum = "too_big", "9999999999"
			}
			v.Add(issue)
		}
		return &limit
	}
	b.change.USD = read(limitUSD, money.ParseLimit)
	b.change.DIEM = read(limitDIEM, money.ParseLimit)
	if vcu := read(limitVCU, money.ParseVCULimit); b.change.DIEM == nil {
		b.change.DIEM = vcu
	}
}
