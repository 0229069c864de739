package dialect

import (
	"bytes"
	"sync"

	"farebox/proxy/jsontext"
)

// Way is how the strings of a member of an answer count.
type Way uint8

const (
	// Unknown is a member that is not in Carried. Its strings count as text, but for data
	// URLs and for base64 that begins as a file of a known kind does.
	Unknown Way = iota
	// Written is text of the model. A large data URL in it counts as such only where no
	// usage was reported: a model that draws into its text reports its usage.
	Written
	// Media is base64, a data URL, or a link. All else in such a member counts as text.
	Media
	// Sealed is data that we cannot read: signatures and encrypted thoughts. It counts as
	// media do.
	Sealed
	// Label names something. Up to labelBytes it does not count; a longer one counts as text.
	Label
	// Source is input that the model got. It counts as text beyond sourceBytes an answer.
	Source
)

// Carrier is one row of Carried.
type Carrier struct {
	What    string
	Way     Way
	Members []string
}

// Carried is the data that an answer may carry, and how each is counted. Other data than text is
// priced by the usage that the upstream tells; where it tells none, by its size
// (mediaWorth). The name that counts is that of the nearest member.
var Carried = []Carrier{
	{"text", Written, []string{"content", "text", "refusal", "output_text"}},
	{"thoughts", Written, []string{"reasoning_content", "reasoning", "thinking", "summary"}},
	{"tool arguments", Written, []string{"arguments", "input", "partial_json"}},
	{"transcript of sound", Written, []string{"transcript"}},
	{"pictures", Media, []string{"image_url", "b64_json", "partial_image_b64", "image"}},
	{"sound", Media, []string{"audio", "audio_url"}},
	{"video", Media, []string{"video", "video_url"}},
	{"files", Media, []string{"file", "file_data", "file_url", "fileUri", "url", "uri", "data", "result"}},
	{"sealed thoughts", Sealed, []string{"signature", "thought_signature", "thoughtSignature", "encrypted_content"}},
	{"names", Label, []string{"type", "role", "name", "id", "index", "format", "mime_type", "media_type", "mimeType",
		"filename"}},
	{"citations", Source, []string{"annotations", "citations"}},
}

var ways = func() map[string]Way {
	m := map[string]Way{}
	for _, row := range Carried {
		for _, name := range row.Members {
			m[name] = row.Way
		}
	}
	return m
}()

// WayOf is how the strings of a member count.
func WayOf(name []byte) Way { return ways[string(name)] }

const (
	// mediaBytes of base64 are worth one token where no usage was reported: pictures of 1 MB
	// are sold as about 1,200 tokens, and compressed sound has about as many bytes.
	mediaBytes = 1 << 10
	// labelBytes is the longest label that does not count, linkBytes the longest link.
	labelBytes = 64
	linkBytes  = 2 << 10
	// sourceBytes of a model's input do not count in an answer.
	sourceBytes = 256 << 10
	// aroundBytes is the usual size of an event without its texts.
	aroundBytes = 512
	// quotedBytes is the shortest base64 in a text that is taken for a drawing: a model that
	// writes it token by token writes less at once.
	quotedBytes = 1 << 10
	// judged is how much of a string is looked at to find its kind.
	judged = 64
)

// mediaWorth and quotedWorth are the worth of a byte in 1/mediaBytes tokens, in a
// member of its own and in a text.
const (
	mediaWorth  = 1
	quotedWorth = mediaBytes / tokenBytes
)

// Texts takes the parts of an answer.
type Texts interface {
	// Add takes text, escaped as in JSON.
	Add(key uint16, escaped []byte)
	// AddUnknown takes data that counts as text but may be something else.
	AddUnknown(key uint16, escaped []byte)
	// AddMedia takes so many bytes that are not text, each worth that many 1/1024 tokens.
	AddMedia(bytes, worth int64)
	// AddSource takes so many bytes of the model's input.
	AddSource(bytes int64)
}

// AddStrings gives to every string value in a piece of JSON, whatever its
// place: the text in a member that is not known here was produced, too.
func AddStrings(to Texts, key uint16, raw []byte) {
	var name []byte
	for i := 0; i < len(raw); {
		n := bytes.IndexByte(raw[i:], '"')
		if n < 0 {
			return
		}
		from := i + n
		end := jsontext.SkipString(raw, from)
		if end < 0 {
			return
		}
		text := raw[from+1 : end-1]
		if next := jsontext.SkipSpace(raw, end); next < len(raw) && raw[next] == ':' {
			name, i = text, next+1
			continue
		}
		i = end
		AddString(to, WayOf(name), key, text)
	}
}

var sorters = sync.Pool{New: func() any { return new(Sorter) }}

// AddString gives one whole string to to.
func AddString(to Texts, way Way, key uint16, text []byte) {
	switch {
	case len(text) == 0 || way == Label && len(text) <= labelBytes:
	case way == Written && len(text) < quotedBytes:
		to.Add(key, text)
	default:
		s := sorters.Get().(*Sorter)
		s.Begin(way)
		s.Take(to, key, text)
		s.End(to, key)
		sorters.Put(s)
	}
}

// Sorter tells the text in one string from other data, wherever the string was split.
// The zero value is ready for Begin.
type Sorter struct {
	way   Way
	is    sort
	size  int64        // so far
	head  [judged]byte // of a string that is not judged yet; of a text, its last bytes
	begun int          // head[:begun]
	skip  int          // bytes of a data URL's head that are still to come
}

// sort is the assumed kind of the rest of a string.
type sort uint8

const (
	unjudged sort = iota
	isText
	isMedia
	isLink
	isQuoted // base64 in a text
)

// Begin begins a string of a member.
func (s *Sorter) Begin(way Way) {
	s.way, s.is, s.size, s.begun, s.skip = way, unjudged, 0, 0, 0
	if way == Written {
		s.is = isText
	}
}

// Take takes the next piece of it.
func (s *Sorter) Take(to Texts, key uint16, p []byte) {
	if len(p) == 0 {
		return
	}
	s.size += int64(len(p))
	if s.way == Source {
		to.AddSource(int64(len(p)))
		return
	}
	if s.is == unjudged {
		if s.begun == 0 && len(p) >= judged {
			s.judge(p[:judged], true)
		} else {
			n := copy(s.head[s.begun:], p)
			s.begun += n
			if p = p[n:]; s.begun < judged {
				return
			}
			s.judge(s.head[:], true)
			begun := s.begun
			s.begun = 0
			s.rest(to, key, s.head[:begun])
		}
	}
	s.rest(to, key, p)
}

// End ends it.
func (s *Sorter) End(to Texts, key uint16) {
	if s.is != unjudged || s.begun == 0 {
		return
	}
	s.judge(s.head[:s.begun], false)
	s.rest(to, key, s.head[:s.begun])
}

// judge finds the kind of a string that begins with head; more says that it continues.
func (s *Sorter) judge(head []byte, more bool) {
	s.is = isText
	switch {
	case s.way == Label:
		if !more && len(head) <= labelBytes || baseRun(head) == len(head) {
			s.is = isMedia
		}
	case isMediaURL(head):
		s.is, s.skip = isMedia, bytes.Index(head, base64Mark)+len(base64Mark)
	case s.way == Unknown:
		if isFile(head) && baseRun(head) == len(head) {
			s.is = isMedia
		}
	case baseRun(head) == len(head):
		s.is = isMedia
	case s.way == Media && isWebLink(head):
		s.is = isLink
	}
}

// rest takes bytes of a string that is judged.
func (s *Sorter) rest(to Texts, key uint16, p []byte) {
	switch {
	case len(p) == 0:
	case s.is == isLink && s.size <= linkBytes:
		to.AddMedia(int64(len(p)), 0)
	case s.is == isMedia && s.way == Label:
		to.AddMedia(int64(len(p)), 0)
	case s.is == isMedia:
		n := min(s.skip, len(p))
		s.skip -= n
		n += baseRun(p[n:])
		to.AddMedia(int64(n), mediaWorth)
		if n < len(p) {
			s.is = isText
			s.rest(to, key, p[n:])
		}
	case s.way == Written:
		s.written(to, key, p)
	default:
		to.AddUnknown(key, p)
	}
}

var base64Mark = []byte(";base64,")

// written takes text that may have data URLs in it.
func (s *Sorter) written(to Texts, key uint16, p []byte) {
	for len(p) > 0 {
		if s.is == isQuoted {
			n := baseRun(p)
			to.AddMedia(int64(n), quotedWorth)
			if p = p[n:]; len(p) > 0 {
				s.is, s.begun = isText, 0
			}
			continue
		}
		from := s.quoted(p)
		if from < 0 {
			to.Add(key, p)
			s.keep(p)
			return
		}
		if from > 0 {
			to.Add(key, p[:from])
		}
		p, s.is = p[from:], isQuoted
	}
}

// quoted is where in a piece of text the base64 of a data URL begins; -1: nowhere.
func (s *Sorter) quoted(p []byte) int {
	if s.begun > 0 {
		// The head of the URL may be split.
		var seam [2 * judged]byte
		n := copy(seam[:], s.head[:s.begun])
		n += copy(seam[n:], p[:min(len(p), judged)])
		if at := urlEnd(seam[:n], 0); at >= s.begun {
			return at - s.begun
		}
	}
	for at := 0; ; {
		if at = urlEnd(p, at); at < 0 {
			return -1
		}
		if n := baseRun(p[at:]); n >= quotedBytes || at+n == len(p) {
			return at
		}
	}
}

// urlEnd is the end of the head of the first data URL of media at or behind an offset.
func urlEnd(p []byte, at int) int {
	for {
		n := bytes.Index(p[at:], base64Mark)
		if n < 0 {
			return -1
		}
		end := at + n + len(base64Mark)
		from := bytes.LastIndex(p[max(at, end-judged):end], []byte("data:"))
		if from >= 0 && isMediaURL(p[max(at, end-judged)+from:end]) {
			return end
		}
		at = end
	}
}

// keep remembers the end of a piece of text.
func (s *Sorter) keep(p []byte) {
	if len(p) >= judged {
		s.begun = copy(s.head[:], p[len(p)-judged:])
		return
	}
	drop := max(0, s.begun+len(p)-judged)
	s.begun = copy(s.head[:], s.head[drop:s.begun])
	s.begun += copy(s.head[s.begun:], p)
}

// mediaTypes are the kinds of a data URL that are not text.
var mediaTypes = [...]string{"image/", "audio/", "video/", "application/pdf", "application/octet-stream",
	"application/zip", "application/vnd."}

// isMediaURL says that a string begins as a base64 data URL of media does.
func isMediaURL(head []byte) bool {
	rest, ok := bytes.CutPrefix(head, []byte("data:"))
	if !ok || !bytes.Contains(rest, base64Mark) {
		return false
	}
	var plain [judged]byte
	if bytes.IndexByte(rest, '\\') >= 0 { // some encoders write \/
		rest = jsontext.AppendUnescaped(plain[:0], rest[:min(len(rest), judged)])
	}
	for _, kind := range mediaTypes {
		if bytes.HasPrefix(rest, []byte(kind)) {
			return true
		}
	}
	return false
}

// fileHeads are how files begin in base64: PNG, JPEG, GIF, RIFF (WebP, WAV, AVI), PDF,
// MP3, Ogg, FLAC, MP4, WebM and ZIP.
var fileHeads = [...]string{"iVBORw0KGgo", "/9j/", "\\/9j\\/", "R0lGOD", "UklGR", "JVBERi", "SUQz", "//", "T2dnUw", "ZkxhQw",
	"AAAAGGZ0eX", "AAAAHGZ0eX", "AAAAIGZ0eX", "GkXfo", "UEsDB"}

// isFile says that base64 begins as a file of a known kind does.
func isFile(head []byte) bool {
	for _, begin := range fileHeads {
		if bytes.HasPrefix(head, []byte(begin)) {
			return true
		}
	}
	return false
}

func isWebLink(head []byte) bool {
	return bytes.HasPrefix(head, []byte("https:")) || bytes.HasPrefix(head, []byte("http:")) ||
		bytes.HasPrefix(head, []byte("gs://"))
}

// baseRun is how many bytes at the beginning are of base64, in either alphabet, as they
// may be in a JSON string.
func baseRun(p []byte) int {
	for i, c := range p {
		if !baseByte[c] {
			return i
		}
	}
	return len(p)
}

var baseByte = func() (is [256]bool) {
	is = base64Byte
	for _, c := range []byte(`-_=\`) {
		is[c] = true
	}
	return is
}()
