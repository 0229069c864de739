package messages

import (
	"sync"

	"farebox/config"
	"farebox/providers"
	form "farebox/providers/chat/messages"
	"farebox/proxy"
	"farebox/proxy/scan"
	"farebox/routes"
)

// keyHeader is where Anthropic's packages put the key.
const keyHeader = "x-api-key"

// Capability is the type that main registers.
type Capability struct {
	texts     routes.TextModels
	exchanges sync.Pool // of *proxy.Exchange
}

// New makes the capability. Its answers are those of texts.
func New(texts routes.TextModels) *Capability {
	return &Capability{texts: texts, exchanges: sync.Pool{New: func() any { return new(proxy.Exchange) }}}
}

// Open is routes.Capability.
func (c *Capability) Open(*routes.Gateway) []routes.Row {
	offered := func(cfg *config.Config) bool { return *cfg.Compat.Messages }
	return []routes.Row{
		{
			Method: "POST", Path: "/messages", Access: routes.Bearer, Wallet: true, Form: routes.JSONBody, Rate: routes.ByModel,
			Operation: "chat", Errors: shape{}, KeyHeader: keyHeader, Rules: routes.Always(askBook),
			Offered: offered, Serve: c.serve,
		},
		{
			Method: "POST", Path: "/messages/count_tokens", Access: routes.Bearer, Wallet: true,
			Form: routes.JSONBody, Rate: byCounts,
			Errors: shape{}, KeyHeader: keyHeader, Rules: routes.Always(countBook), Offered: offered,
			Serve: c.count,
		},
	}
}

// Load is routes.Loader.
func (*Capability) Load(*config.Config, *providers.Catalog, any) (routes.View, error) {
	return routes.View{Headers: [][]byte{requestHeader}}, nil
}

// requestHeader is where Anthropic's packages look for the request's id.
var requestHeader = []byte("Request-Id")

// serve answers POST /messages.
func (c *Capability) serve(call *routes.Call) *routes.Error {
	reported, e := c.read(call)
	if e != nil {
		return e
	}
	return c.texts.Sell(call, reported)
}

// read makes a chat completion of the client's request.
func (c *Capability) read(call *routes.Call) (*routes.TranslatedChat, *routes.Error) {
	call.Ctx.Response.Header.SetCanonical(requestHeader, call.ID[:])
	rules := call.Rules()
	if e := call.ReadJSON(rules.Root); e != nil {
		return nil, e
	}
	if e := threads(call); e != nil {
		return nil, e
	}
	v := routes.Validator{Body: call.Body, Doc: &call.Doc, Book: rules}
	v.CheckAll()
	checkStops(&v)
	f, body, wrong := form.Read(call.Body, &call.Doc, searchless(call, &v))
	f.SetBetas(call.Ctx.Request.Header.PeekAll("anthropic-beta"))
	reported := &routes.TranslatedChat{Form: f, Body: body, Issues: v.Issues}
	if len(v.Issues) == 0 {
		reported.Wrong(wrong)
	}
	return reported, nil
}

// searchless says that the model a body names cannot search the web.
func searchless(call *routes.Call, v *routes.Validator) bool {
	name, _ := providers.SplitSuffix(v.Text(-1, form.TopModel))
	model, _ := call.Catalog().Resolve(name, "text")
	return model != nil && !model.Chat.Capabilities.WebSearch
}

// threads refuses conversations that are kept for the client. The loops of tools in
// Anthropic's packages ask for one unless told otherwise, and go on without one after
// this code alone.
func threads(call *routes.Call) *routes.Error {
	if i := call.Doc.TopIndex(form.TopThread); i < 0 || call.Doc.Fields[i].Kind == scan.Null {
		return nil
	}
	e := routes.Unsupported("thread", "thread: conversations are not kept here; send all messages.")
	e.Refused = "thread_unsupported_request"
	return e
}
