package upstream

import (
	"bytes"
	"encoding/base64"
	"strconv"
	"strings"
	"sync"
	"time"

	"farebox/bench/upstream/chain"
	"farebox/bench/upstream/sound"
)

// The measured path of pictures: requests for BenchImageModel are not parsed,
// and the answers are prepared. All else of pictures is in painting.go.

// BenchImageModel is the model of the measurements.
const BenchImageModel = "bench-image"

const (
	benchPicture = 768 << 10 // bytes of the picture, 1 MB in base64
	benchSide    = 1024      // its width and height in pixels
)

var benchImageMark = []byte(BenchImageModel)

// BenchImagePrompt asks for a picture in this API's form, BenchImageEdit has it
// in base64 for an edit.
var (
	BenchImagePrompt = []byte(`{"model":"` + BenchImageModel + `","prompt":"A river at dawn","format":"png"}`)
	BenchImageEdit   = sync.OnceValue(func() []byte {
		return []byte(`{"model":"` + BenchImageModel + `-edit","prompt":"Make it night","image":"` +
			benchPictureText() + `"}`)
	})
)

var benchPictureText = sync.OnceValue(func() string {
	return base64.StdEncoding.EncodeToString(padPNG(paint(benchSide, benchSide, "png", 1), benchPicture))
})

func benchImageAnswer(text string) []byte {
	return benchWhole([]byte(`{"created":1700000000,"data":[{"b64_json":"` + text +
		`"}],"output_format":"png","size":"1024x1024"}`))
}

// A request for a picture is answered with one of 1 MB, an edit with a small one.
var (
	benchMade   = sync.OnceValue(func() []byte { return benchImageAnswer(benchPictureText()) })
	benchEdited = sync.OnceValue(func() []byte {
		return benchImageAnswer(base64.StdEncoding.EncodeToString(paint(benchSide, benchSide, "png", 2)))
	})
)

// benchImage is the prepared answer to a request for pictures, nil for one that is not of
// the measurements. The model is near the beginning of a JSON body, and before or behind
// the files of a form.
func (c *conn) benchImage(path []byte) []byte {
	body := c.req.body
	near := func(b []byte) bool { return bytes.Contains(b, benchImageMark) }
	switch {
	case !near(body[:min(len(body), benchLook)]) && !near(body[max(0, len(body)-2*benchLook):]):
		return nil
	case bytes.HasSuffix(path, []byte("/images/generations")):
		return benchMade()
	case bytes.HasSuffix(path, []byte("/images/edits")):
		return benchEdited()
	}
	return nil
}

func benchWhole(body []byte) []byte {
	head := "HTTP/1.1 200 OK\r\nServer: simulated-upstream\r\nContent-Type: application/json\r\nContent-Length: " +
		strconv.Itoa(len(body)) + "\r\n\r\n"
	return append([]byte(head), body...)
}

// The measured path of speech: requests for BenchSpeechModel and BenchPacedModel are not
// parsed, and their sound is prepared. All else of speech is in speaker.go.

// Models of the measurements: a megabyte as fast as the client reads, and sound at the pace
// at which it is made.
const (
	BenchSpeechModel = "bench-speech"
	BenchPacedModel  = "bench-speech-paced"
)

const (
	// BenchSpeechBytes is the size of the megabyte, to the last whole frame of its sound.
	BenchSpeechBytes = 1 << 20
	benchSoundPiece  = 16 << 10 // of the megabyte, as servers write encoded pieces
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

// The measured path of blockchain calls: of a body posted to BenchRPCPath only the ids are
// read, and the rest of its answer is prepared. Faults, states and other methods are in
// Node, which is not made for speed.

// BenchRPCPath is where the measured node listens.
const BenchRPCPath = "/v1/rpc"

// Requests of the measurements, and the sizes of their answers.
const (
	// BenchRPCLarge is the size of the result of eth_getLogs in bytes, about.
	BenchRPCLarge = 100 << 20
	// BenchRPCBatch is the number of calls in BenchRPCCalls.
	BenchRPCBatch  = 100
	benchRPCResult = `"result":"0x1bc16d674ec80000"}`
	benchRPCChunk  = 64 << 10
)

// BenchRPCCall is one call, BenchRPCCalls a batch and BenchRPCLogs a call with
// a large answer.
var (
	BenchRPCCall  = []byte(`{"jsonrpc":"2.0","id":1,"method":"eth_getBalance","params":["0x407d73d8a49eeb85d32cf465507dd71d507100c1","latest"]}`)
	BenchRPCCalls = benchBatch(func(id string) string {
		return `{"jsonrpc":"2.0","id":` + id +
			`,"method":"eth_getBalance","params":["0x407d73d8a49eeb85d32cf465507dd71d507100c1","latest"]}`
	})
	BenchRPCLogs = []byte(`{"jsonrpc":"2.0","id":1,"method":"eth_getLogs","params":[{"fromBlock":"0x1","toBlock":"0x100000"}]}`)
)

var (
	benchRPCLogsMark = []byte(`"eth_getLogs"`)
	benchRPCID       = []byte(`"id":`)
	benchRPCHead     = "HTTP/1.1 200 OK\r\nServer: simulated-upstream\r\nContent-Type: application/json\r\n"
	benchRPCPiece    = benchLogs()
	benchRPCEnd      = []byte(chunkOf(`null]}`) + "0\r\n\r\n")
)

func benchBatch(call func(id string) string) []byte {
	b := []byte{'['}
	for i := 1; i <= BenchRPCBatch; i++ {
		if i > 1 {
			b = append(b, ',')
		}
		b = append(b, call(strconv.Itoa(i))...)
	}
	return append(b, ']')
}

// benchLogs is a chunk of about benchRPCChunk bytes of logs.
func benchLogs() []byte {
	return []byte(chunkOf(strings.Repeat(chain.ExampleLog, benchRPCChunk/len(chain.ExampleLog))))
}

// serveBenchRPC answers a call on the measured path.
func (c *conn) serveBenchRPC() bool {
	body := bytes.TrimLeft(c.req.body, " \t\r\n")
	many := len(body) > 0 && body[0] == '['
	if !many && bytes.Contains(body[:min(len(body), benchLook)], benchRPCLogsMark) {
		id, _ := nextBenchID(body)
		return c.benchRPCLarge(id)
	}
	answer := c.rpc[:0]
	if many {
		answer = append(answer, '[')
	}
	for id, rest := nextBenchID(body); id != nil; id, rest = nextBenchID(rest) {
		if len(answer) > 1 {
			answer = append(answer, ',')
		}
		answer = append(append(append(answer, `{"jsonrpc":"2.0","id":`...), id...), `,`+benchRPCResult...)
	}
	if many {
		answer = append(answer, ']')
	}
	c.rpc = answer
	head := strconv.AppendInt(append(c.out[:0], benchRPCHead+"Content-Length: "...), int64(len(answer)), 10)
	c.out = append(append(head, "\r\n\r\n"...), answer...)
	_, err := c.nc.Write(c.out)
	return err == nil
}

// nextBenchID returns the next id in a body and the rest of the body, or nil at its end.
func nextBenchID(body []byte) (id, rest []byte) {
	at := bytes.Index(body, benchRPCID)
	if at < 0 {
		return nil, nil
	}
	body = body[at+len(benchRPCID):]
	end := bytes.IndexAny(body, ",}")
	if end < 0 {
		return nil, nil
	}
	return bytes.TrimSpace(body[:end]), body[end:]
}

func (c *conn) benchRPCLarge(id []byte) bool {
	head := benchRPCHead + "Transfer-Encoding: chunked\r\n\r\n" + chunkOf(`{"jsonrpc":"2.0","id":`+string(id)+`,"result":[`)
	if _, err := c.nc.Write([]byte(head)); err != nil {
		return false
	}
	for sent := 0; sent < BenchRPCLarge; sent += len(benchRPCPiece) {
		if _, err := c.nc.Write(benchRPCPiece); err != nil {
			return false
		}
	}
	_, err := c.nc.Write(benchRPCEnd)
	return err == nil
}
