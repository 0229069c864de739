package mixed

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/tidwall/gjson"

	"farebox/bench/upstream"
)

// send makes one request and reports the fault of its answer.
func (d *driver) send(ctx context.Context, q *request) error {
	ctx, cancel := context.WithTimeout(ctx, d.o.Timeout)
	defer cancel() // for a client that leaves, this closes the connection
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, d.o.URL+q.path, bytes.NewReader(q.body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	if d.o.Key != "" {
		req.Header.Set("Authorization", "Bearer "+d.o.Key)
	}
	resp, err := d.client.Do(req)
	if err != nil {
		return fmt.Errorf("no answer: %w", err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != q.status {
		b, _ := io.ReadAll(io.LimitReader(resp.Body, 2048))
		if q.status == 0 && resp.StatusCode >= 400 {
			return nil
		}
		return fmt.Errorf("status %d: %.300s", resp.StatusCode, b)
	}
	if q.stream {
		return q.readStream(resp.Body)
	}
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		return fmt.Errorf("cannot read the answer: %w", err)
	}
	return q.checkBody(b)
}

func (q *request) checkBody(b []byte) error {
	if !gjson.ValidBytes(b) {
		return fmt.Errorf("the answer is not JSON: %.200s", b)
	}
	answer := gjson.ParseBytes(b)
	if !q.embedding {
		if n := upstream.CountText(answer.Get("choices.0.message.content").Str); n != q.completion {
			return fmt.Errorf("the text has %d tokens, %d were asked for", n, q.completion)
		}
	}
	if q.usage {
		return q.checkUsage(answer.Get("usage"))
	}
	return nil
}

func (q *request) checkUsage(usage gjson.Result) error {
	if p, c := usage.Get("prompt_tokens").Int(), usage.Get("completion_tokens").Int(); p != q.prompt ||
		c != q.completion {
		return fmt.Errorf("usage says %d and %d tokens, %d and %d are right", p, c, q.prompt, q.completion)
	}
	return nil
}

// readStream reads to the end, or leaves after its number of deltas.
func (q *request) readStream(body io.Reader) error {
	br := bufio.NewReaderSize(body, 8<<10)
	deltas, done := 0, false
	var usage gjson.Result
	for {
		line, err := br.ReadBytes('\n')
		if err != nil {
			return q.checkEnd(deltas, done, usage, err)
		}
		data, ok := bytes.CutPrefix(bytes.TrimRight(line, "\r\n"), []byte("data: "))
		switch {
		case !ok:
			continue
		case string(data) == "[DONE]":
			done = true
			continue
		case !gjson.ValidBytes(data):
			return fmt.Errorf("an event is not JSON: %.200s", data)
		}
		event := gjson.ParseBytes(data)
		if event.Get("choices.0.delta.content").Str != "" {
			deltas++
		}
		if u := event.Get("usage"); u.IsObject() {
			usage = u
		}
		if q.leaveAfter > 0 && deltas >= q.leaveAfter {
			return nil
		}
	}
}

// checkEnd judges a stream that ended. A gateway may end a cut one with an
// error event and [DONE] or by breaking the connection; it may not lose a
// token that had arrived.
func (q *request) checkEnd(deltas int, done bool, usage gjson.Result, err error) error {
	switch {
	case q.leaveAfter > 0:
		return fmt.Errorf("the stream ended after %d deltas, before the client left at %d", deltas, q.leaveAfter)
	case deltas != int(q.completion):
		return fmt.Errorf("%d deltas came, %d were produced", deltas, q.completion)
	case q.cutAfter > 0:
		return nil
	case !errors.Is(err, io.EOF) || !done:
		return fmt.Errorf("the stream ended with %v, [DONE] seen: %t", err, done)
	case q.usage && usage.Exists():
		return q.checkUsage(usage)
	}
	return nil
}
