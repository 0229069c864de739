package audio

import (
	"bytes"
	"encoding/binary"
)

// sniffed is the verdict on the first bytes of an answer.
type sniffed uint8

const (
	unclear sniffed = iota // more of it must be seen
	sounds                 // it is the ordered format
	speaks                 // it is text: an error, in JSON, or a page
	strange                // it is something else
)

const (
	// enough is how many bytes distinguish all formats, mp3Tag apart.
	enough = 12
	// mostHead bounds the bytes read before the kind of an answer must be clear.
	mostHead = 64 << 10
)

// sniff judges how an answer begins. Servers send errors with status 200 and the wrong
// type, so the bytes decide; a type that says text decides alone.
func sniff(format string, contentType, head []byte, ended bool) sniffed {
	media, _, _ := bytes.Cut(contentType, []byte(";"))
	media = bytes.ToLower(bytes.TrimSpace(media))
	switch {
	case len(head) == 0 && ended:
		return strange
	case string(media) == "application/json", bytes.HasSuffix(media, []byte("+json")), bytes.HasPrefix(media, []byte("text/")):
		return speaks
	case len(head) < enough && !ended:
		return unclear
	case isFormat(format, head):
		return sounds
	case textual(head):
		return speaks
	case format == "pcm":
		return sounds // any bytes are samples
	}
	return strange
}

func isFormat(format string, head []byte) bool {
	two := func(mask, want uint16) bool {
		return len(head) > 1 && binary.BigEndian.Uint16(head)&mask == want
	}
	begins := func(magic string) bool { return bytes.HasPrefix(head, []byte(magic)) }
	switch format {
	case "mp3":
		return begins("ID3") || two(0xffe6, 0xffe2) // layer III of any MPEG
	case "aac":
		return two(0xfff6, 0xfff0) || begins("ADIF")
	case "opus":
		return begins("OggS")
	case "flac":
		return begins("fLaC")
	case "wav":
		return begins("RIFF") && len(head) >= enough && string(head[8:12]) == "WAVE"
	}
	return false
}

// textual says that bytes are the beginning of JSON or of a page, which no samples are:
// that would be a sequence of loud clicks.
func textual(head []byte) bool {
	head = bytes.TrimLeft(head, " \t\r\n")
	if len(head) == 0 || head[0] != '{' && head[0] != '[' && head[0] != '<' {
		return false
	}
	for _, c := range head[:min(len(head), enough)] {
		if c < ' ' && c != '\t' && c != '\r' && c != '\n' || c >= 0x7f {
			return false
		}
	}
	return true
}

var (
	eventDelta = []byte("speech.audio.")
	eventDone  = []byte(`speech.audio.done`)
	eventError = []byte(`"error"`)
)

// sniffEvents is sniff for an answer of events, of which the first must be seen.
func sniffEvents(contentType, head []byte, ended bool) sniffed {
	media, _, _ := bytes.Cut(contentType, []byte(";"))
	if !bytes.EqualFold(bytes.TrimSpace(media), []byte("text/event-stream")) {
		if textual(head) || ended || len(head) >= enough {
			return speaks
		}
		return unclear
	}
	delta, failed := bytes.Index(head, eventDelta), bytes.Index(head, eventError)
	switch {
	case delta >= 0 && (failed < 0 || delta < failed):
		return sounds
	case failed >= 0 && (ended || bytes.Contains(head[failed:], []byte("\n"))):
		return speaks
	case ended:
		return strange
	}
	return unclear
}

// eventWords is the data of the first event that holds an error.
func eventWords(head []byte) []byte {
	for line := range bytes.SplitSeq(head, []byte("\n")) {
		if data, ok := bytes.CutPrefix(line, []byte("data:")); ok && bytes.Contains(data, eventError) {
			return bytes.TrimSpace(data)
		}
	}
	return nil
}
