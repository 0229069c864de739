package attack

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/tidwall/gjson"
)

// kind is one kind of ordinary requests. do gives the mark in the answer.
type kind struct {
	name  string
	needs func(o *Options) string // as of a Round
	do    func(c *crowd, ctx context.Context, customer int, mark string, n int) (said string, err error)
}

// kinds are all that ordinary customers send, in turn.
var kinds = []kind{
	{"chat", nil, func(c *crowd, ctx context.Context, customer int, mark string, _ int) (string, error) {
		return c.chat(ctx, customer, mark, false, false)
	}},
	{"stream", nil, func(c *crowd, ctx context.Context, customer int, mark string, _ int) (string, error) {
		return c.chat(ctx, customer, mark, true, false)
	}},
	{"long chat", nil, func(c *crowd, ctx context.Context, customer int, mark string, _ int) (string, error) {
		return c.chat(ctx, customer, mark, false, true)
	}},
	{"keyed chat", nil, func(c *crowd, ctx context.Context, customer int, mark string, _ int) (string, error) {
		b, err := c.whole(ctx, customer, "/chat/completions", chatBody(c.o.Model, "echo="+mark, false, nil), "Idempotency-Key",
			mark)
		return contentOf(b), err
	}},
	{"RPC call", (*Options).network, (*crowd).rpc},
	{"RPC batch", (*Options).network, func(c *crowd, ctx context.Context, customer int, mark string, _ int) (string, error) {
		const call = `{"jsonrpc":"2.0","id":%q,"method":"eth_call","params":[{"to":"0x1"},"latest"]}`
		b, err := c.whole(ctx, customer, "/crypto/rpc/"+c.o.RPC, fmt.Appendf(nil, "["+call+","+call+"]", mark, mark+"b"))
		if gjson.GetBytes(b, "1.id").Str != mark+"b" {
			return "", err
		}
		return gjson.GetBytes(b, "0.id").Str, err
	}},
	{"document", (*Options).documents, func(c *crowd, ctx context.Context, customer int, mark string, _ int) (string, error) {
		contentType, form := FileForm("a.xlsx", EmptyCells(3, mark))
		b, err := c.whole(ctx, customer, "/augment/text-parser", form, "Content-Type", contentType)
		return marked(gjson.GetBytes(b, "text").Str, mark), err
	}},
	{"page", (*Options).pages, func(c *crowd, ctx context.Context, customer int, mark string, _ int) (string, error) {
		b, err := c.whole(ctx, customer, "/augment/scrape", fmt.Appendf(nil, `{"url":"%s/%s"}`, c.sites[1], mark))
		return marked(gjson.GetBytes(b, "content").Str, mark), err
	}},
	{"schema", (*Options).strict, func(c *crowd, ctx context.Context, customer int, mark string, _ int) (string, error) {
		b, err := c.whole(ctx, customer, "/chat/completions", strictBody(c.o.Strict, `{"mark":"`+mark+`"}`,
			`{"type":"object","properties":{"mark":{"type":"string"}},"required":["mark"]}`))
		return gjson.Get(contentOf(b), "mark").Str, err
	}},
}

// marked is the mark, where a text has it.
func marked(text, mark string) string {
	if strings.Contains(text, mark) {
		return mark
	}
	return clipped(text)
}

// contentOf is the text of a whole chat answer.
func contentOf(b []byte) string { return gjson.GetBytes(b, "choices.0.message.content").Str }

// whole is post with all of the answer's body.
func (c *crowd) whole(ctx context.Context, customer int, path string, body []byte, headers ...string) ([]byte, error) {
	res, err := c.post(ctx, customer, path, body, headers...)
	if err != nil {
		return nil, err
	}
	defer func() { _ = res.Body.Close() }()
	return io.ReadAll(res.Body)
}

// longText makes a body of 20 KB, which servers often handle in another way.
var longText = strings.Repeat(" the small river moves past old stone houses", 460)

func (c *crowd) chat(ctx context.Context, customer int, mark string, stream, large bool) (string, error) {
	body := chatBody(c.o.Model, "echo="+mark, stream, nil)
	if large {
		body = bytes.Replace(body, []byte("]] hello"), []byte("]] hello"+longText), 1)
	}
	if !stream {
		b, err := c.whole(ctx, customer, "/chat/completions", body)
		return contentOf(b), err
	}
	res, err := c.post(ctx, customer, "/chat/completions", body)
	if err != nil {
		return "", err
	}
	defer func() { _ = res.Body.Close() }()
	said, done := "", false
	in := bufio.NewReader(res.Body)
	for {
		line, err := in.ReadBytes('\n')
		if data, ok := bytes.CutPrefix(bytes.TrimSpace(line), []byte("data: ")); ok {
			done = done || string(data) == "[DONE]"
			said += gjson.GetBytes(data, "choices.0.delta.content").Str
		}
		if err == io.EOF && done {
			return said, nil
		}
		if err != nil {
			return said, fmt.Errorf("a stream broke off: %w", err)
		}
	}
}

// rpcCalls are ordinary calls of the methods that the rounds aim at.
var rpcCalls = []string{
	`"eth_feeHistory","params":["0x5","latest",[]]`,
	`"debug_traceCall","params":[{"to":"0x1"},"latest",{"tracer":"callTracer"}]`,
	`"eth_call","params":[{"to":"0x1"},"latest"]`,
}

func (c *crowd) rpc(ctx context.Context, customer int, mark string, n int) (string, error) {
	body := `{"jsonrpc":"2.0","id":"` + mark + `","method":` + rpcCalls[n%len(rpcCalls)] + "}"
	b, err := c.whole(ctx, customer, "/crypto/rpc/"+c.o.RPC, []byte(body))
	if err == nil && !gjson.GetBytes(b, "result").Exists() {
		err = fmt.Errorf("an RPC error: %.80s", gjson.GetBytes(b, "error.message").Str)
	}
	return gjson.GetBytes(b, "id").Str, err
}
