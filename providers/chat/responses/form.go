package responses

import (
	"strconv"
	"strings"
	"sync"

	"farebox/providers/chat/dialect"
	"farebox/proxy/jsontext"
	"farebox/proxy/scan"
)

// Options is the part of an operator's config for the form. Immutable.
type Options struct {
	// Brand is the word of the parameter object, Aliases others that are taken for it.
	Brand   string
	Aliases []string
	// Spec writes responses and events as addendum 6.3 and 6.4 have them, instead of as
	// OpenAI's own packages parse them.
	Spec bool
	// Extras keeps members that OpenAI's packages send beyond the specification, where chat
	// completions have a name for them.
	Extras bool
}

// keepForm is the most memory that a reused Form keeps.
const keepForm = 64 << 10

// keepTools is how many tools a reused Form keeps room for.
const keepTools = 256

var forms = sync.Pool{New: func() any { return new(Form) }}

// Form is one request in the form of POST /responses.
type Form struct {
	o       *Options
	body    []byte
	doc     *scan.Document // of body, with Shape
	id      []byte         // the base of ids
	created int64          // Unix seconds

	b       []byte       // the chat body
	places  []itemOrigin // of its messages and calls
	said    bool         // a message is in it
	run     []int32      // items of one assistant message
	decoded []byte
	number  int64 // of the next event of an upstream that speaks the form itself
	// upstreamID is the id of its response.
	upstreamID []byte
	problems   []dialect.Unsupported

	table      []tool             // those that the client carries out
	names      []byte             // of theirs
	byName     map[string][]int32 // tools by nameKey; nil: there are few
	byFlat     map[string]int32
	lists      []toolList // of the input, in its order
	key        []byte
	wrote      []int32 // where the tools of the chat body are declared
	left       dialect.LeftOut
	searchless bool
	stateless  bool           // its previous_response_id has no effect
	missed     bool           // a thought that the input refers to is not known
	keeper     Keeper         // nil: no items are kept
	kept       int            // items
	whole      ResponseKeeper // nil: the answer is not kept
	heard      []byte         // items of the answer, each with a comma
	waits      bool           // the client does not get the answer yet; nothing is kept before
	waiting    [][]byte       // …items
	response   []byte         // …the whole answer
	continued  bool           // the body goes on from an earlier answer
	earlier    int            // items of the input that it brought along
	searched   string         // for, before the model was asked
}

// itemOrigin says of which input item a message, or a call in it, was made.
type itemOrigin struct {
	message, call, item int32 // call is -1 for the message itself
	result              bool  // the item is the result of a call
}

// NewForm reads a body that has Shape. id is the request's, in hexadecimal digits; ids
// of the response and its items are made of it.
func NewForm(o *Options, body []byte, doc *scan.Document, id []byte, created int64) *Form {
	f := forms.Get().(*Form)
	f.o, f.body, f.doc, f.created = o, body, doc, created
	f.id = append(f.id[:0], id...)
	return f
}

// Release gives the Form back, and with it the chat body; neither may be used afterwards.
func (f *Form) Release() {
	fresh := Form{id: f.id[:0], b: f.b[:0], places: f.places[:0], run: f.run[:0], decoded: f.decoded[:0],
		table: f.table[:0], lists: f.lists[:0], names: f.names[:0], wrote: f.wrote[:0]}
	if cap(fresh.names) > keepForm || cap(fresh.table) > keepTools {
		fresh.names, fresh.table, fresh.lists, fresh.wrote = nil, nil, nil, nil
	}
	if cap(fresh.b) > keepForm {
		fresh.b = nil
	}
	if cap(fresh.decoded) > keepForm {
		fresh.decoded = nil
	}
	*f = fresh
	forms.Put(f)
}

// Searchless says that the model cannot search, so that web_search is left out.
func (f *Form) Searchless() { f.searchless = true }

// withoutEffect are members that chats have no word for (addendum 6.1).
var withoutEffect = []struct {
	id   int
	name dialect.Omission
}{
	{TopConversation, "conversation"}, {TopBackground, "background"}, {TopMaxToolCalls, "max_tool_calls"},
	{TopContextManagement, "context_management"}, {TopN, "n"}, {TopStop, "stop"}, {TopSeed, "seed"},
}

// LeftOut is dialect.Abridged's.
func (f *Form) LeftOut() *dialect.LeftOut {
	if f.missed {
		f.left.Add(missedThought)
	}
	if f.stateless {
		f.left.Add(unread)
	}
	if string(f.text(f.doc.TopIndex(TopTruncation))) == "auto" {
		f.left.Add("truncation") // chats have no word for a prompt that is to be shortened
	}
	for _, member := range withoutEffect {
		if value := f.raw(f.doc.TopIndex(member.id)); value != nil && string(value) != "false" {
			f.left.Add(member.name)
		}
	}
	f.leaveUnread()
	return &f.left
}

// unreadMembers are members of OpenAI's that no Shape has, since nothing here reads them.
var unreadMembers = []dialect.Omission{
	"access_programs", "background_options", "image", "moderation", "prompt_cache_options",
}

// leaveUnread names those that the body has.
func (f *Form) leaveUnread() {
	if int(f.doc.Named(-1)) == f.doc.Members {
		return
	}
	start := jsontext.SkipSpace(f.body, 0)
	for m := range jsontext.Members(f.body, start+1) {
		for _, name := range unreadMembers {
			if string(m.Key) == string(name) && string(f.body[m.From:m.To]) != "null" {
				f.left.Add(name)
			}
		}
	}
}

// Kind is that of OpenAI's POST /responses (addendum 6).
const Kind dialect.FormKind = "responses"

// Kind is dialect.Form.
func (f *Form) Kind() dialect.FormKind { return Kind }

var adapted = dialect.Adapted{ToolImage: "input.output.image"}

// Adapts is dialect.Form.
func (f *Form) Adapts() *dialect.Adapted { return &adapted }

// Problems are the reasons why the body cannot become a chat body, by the client's names.
func (f *Form) Problems() []dialect.Unsupported { return f.problems }

// maxProblems bounds the answer to a body that is wrong in many places.
const maxProblems = 20

func (f *Form) problem(path, text string) {
	if len(f.problems) < maxProblems {
		path = f.ownPath(path)
		f.problems = append(f.problems, dialect.Unsupported{Path: path, Text: path + ": " + text})
	}
}

// text and raw are those of a field of the body.
func (f *Form) text(i int32) []byte { return f.doc.StringAt(f.body, i) }
func (f *Form) raw(i int32) []byte  { return f.doc.RawAt(f.body, i) }

// member is the index of a field's member, -1 if absent or if the field is.
func (f *Form) member(i int32, id int) int32 {
	if i < 0 {
		return -1
	}
	return f.doc.Member(i, id)
}

// renamedMembers are the chat body's members that have another name in the client's.
var renamedMembers = []struct{ chat, own string }{
	{"response_format.json_schema", "text.format"}, {"response_format", "text.format"},
	{"max_completion_tokens", "max_output_tokens"}, {"max_tokens", "max_output_tokens"},
	{"verbosity", "text.verbosity"}, {"tool_choice.function", "tool_choice"},
}

// Path is dialect.Form.
func (f *Form) Path(chat string) string {
	if rest, ok := strings.CutPrefix(chat, "messages"); ok && (rest == "" || rest[0] == '.') {
		return f.messagePath(rest)
	}
	for _, m := range renamedMembers {
		if rest, ok := strings.CutPrefix(chat, m.chat); ok && (rest == "" || rest[0] == '.') {
			return m.own + rest
		}
	}
	if rest, ok := strings.CutPrefix(chat, "tools."); ok {
		digits, rest, _ := strings.Cut(strings.Replace(rest, ".function", "", 1), ".")
		n, err := strconv.Atoi(digits)
		path := "tools." + digits
		if err == nil && n >= 0 && n < len(f.wrote) {
			path = f.doc.Path(f.wrote[n])
		}
		if rest != "" {
			path += "." + rest
		}
		return path
	}
	if strings.HasSuffix(chat, "_parameters.enable_web_search") && f.doc.TopIndex(TopWebSearch) >= 0 {
		return "web_search"
	}
	return chat
}

// messagePath is Path behind the messages, such as .3.content.0.text.
func (f *Form) messagePath(rest string) string {
	number := func() (int32, bool) {
		digits, after, _ := strings.Cut(strings.TrimPrefix(rest, "."), ".")
		n, err := strconv.ParseInt(digits, 10, 32)
		if err != nil || rest == "" {
			return 0, false
		}
		if rest = after; after != "" {
			rest = "." + after
		}
		return int32(n), true
	}
	message, ok := number()
	if !ok {
		return "input" + rest
	}
	of := f.placeOf(message, -1)
	item := of.item
	if inside, ok := strings.CutPrefix(rest, ".content"); ok && of.result {
		rest = ".output" + inside
	}
	if calls, ok := strings.CutPrefix(rest, ".tool_calls"); ok {
		rest = calls
		if call, ok := number(); ok {
			item = f.placeOf(message, call).item
			rest = strings.Replace(rest, ".function", "", 1)
		}
	}
	switch {
	case item == instructed:
		return "instructions"
	case item == plainInput:
		return "input"
	}
	rest = strings.Replace(rest, ".image_url.url", ".image_url", 1)
	rest = strings.Replace(rest, ".tool_call_id", ".call_id", 1)
	return f.ownPath("input." + strconv.Itoa(int(item)) + rest)
}

// Items that are none.
const (
	instructed int32 = -1 // the message was made of instructions
	plainInput int32 = -2 // the message was made of input, which is a string
)

func (f *Form) placeOf(message, call int32) itemOrigin {
	for _, p := range f.places {
		if p.message == message && p.call == call {
			return p
		}
	}
	return itemOrigin{item: plainInput}
}
