package upstream

import (
	"bytes"
	"sync"
	"time"

	"farebox/bench/upstream/sound"
)

// The measured path of speech: requests for BenchSpeechModel and BenchPacedModel are not
// parsed, and their sound is prepared. All else of speech is in speaker.go.

// Models of the measurements: a megabyte as fast as it is taken, and sound that comes as it
// is made.
const (
	BenchSpeechModel = "bench-speech"
	BenchPacedModel  = "bench-speech-paced"
)

const (
	// BenchSpeechBytes is the size of the megabyte, to the last whole frame of its sound.
	BenchSpeechBytes = 1 << 20
	benchSoundPiece  = 16 << 10 // of the megabyte, as servers write what they have encoded
	benchPacedPiece  = 2 << 10  // half a second of sound at 32 kbit/s
	benchPacedPieces = 10
	benchPacedGap    = 5 * time.Millisecond
)

// BenchSpeech asks for a megabyte, BenchPaced for sound as it is made.
var (
	BenchSpeech = benchSpeechAsked(BenchSpeechModel)
	BenchPaced  = benchSpeechAsked(BenchPacedModel)
)

func benchSpeechAsked(model string) []byte {
	return []byte(`{"model":"` + model + `","input":"The quick brown fox jumps over the lazy dog while it rains.",` +
		`"voice":"alloy","response_format":"mp3","streaming":true}`)
}

var (
	benchSpeechMark = []byte(`"` + BenchSpeechModel)
	benchPacedMark  = []byte(`"` + BenchPacedModel + `"`)
	benchSpeechHead = []byte("HTTP/1.1 200 OK\r\nServer: simulated-upstream\r\nContent-Type: audio/mpeg\r\n" +
		"Transfer-Encoding: chunked\r\n\r\n")
	benchSound = sync.OnceValue(func() []byte {
		second := sound.Bytes("mp3", time.Second)
		return bytes.Repeat(second, BenchSpeechBytes/len(second))
	})
	// benchSounds are the chunks of the megabyte.
	benchSounds = sync.OnceValue(func() (list [][]byte) {
		for all := benchSound(); len(all) > 0; {
			n := min(benchSoundPiece, len(all))
			list, all = append(list, []byte(chunkOf(string(all[:n])))), all[n:]
		}
		return list
	})
	benchPacedChunk = sync.OnceValue(func() []byte { return []byte(chunkOf(string(benchSound()[:benchPacedPiece]))) })
	benchSoundEnd   = []byte("0\r\n\r\n")
)

// benchSpeech says that a request is one of the measurements.
func (c *conn) benchSpeech(path []byte) bool {
	return bytes.HasSuffix(path, []byte("/audio/speech")) &&
		bytes.Contains(c.req.body[:min(len(c.req.body), benchLook)], benchSpeechMark)
}

// serveBenchSpeech answers it; false: the connection is of no more use.
func (c *conn) serveBenchSpeech() bool {
	if bytes.Contains(c.req.body, benchPacedMark) {
		return c.benchPaced() == nil
	}
	c.out = append(c.out[:0], benchSpeechHead...)
	for _, piece := range benchSounds() {
		c.out = append(c.out, piece...)
		if _, err := c.nc.Write(c.out); err != nil {
			return false
		}
		c.out = c.out[:0]
	}
	_, err := c.nc.Write(benchSoundEnd)
	return err == nil
}

// benchPaced sends pieces with gaps, the first of them with the head.
func (c *conn) benchPaced() error {
	c.out = append(append(c.out[:0], benchSpeechHead...), benchPacedChunk()...)
	due := time.Now()
	for range benchPacedPieces {
		if _, err := c.nc.Write(c.out); err != nil {
			return err
		}
		c.out = append(c.out[:0], benchPacedChunk()...)
		due = due.Add(benchPacedGap)
		time.Sleep(time.Until(due))
	}
	_, err := c.nc.Write(benchSoundEnd)
	return err
}
