package responses

import (
	"bytes"
	"time"

	"github.com/valyala/fasthttp"

	"farebox/config"
	"farebox/providers"
	form "farebox/providers/chat/responses"
	"farebox/routes"
)

// Capability is the type that main registers.
type Capability struct{ texts routes.TextModels }

// New makes the capability. Its answers are those of texts.
func New(texts routes.TextModels) *Capability { return &Capability{texts: texts} }

// Open is routes.Capability.
func (c *Capability) Open(*routes.Gateway) []routes.Row {
	keeps := func(cfg *config.Config) bool { return cfg.Responses.Keep > 0 }
	return []routes.Row{
		{Method: "POST", Path: "/responses", Access: routes.Bearer, Wallet: true, Form: routes.JSONBody, Rate: routes.ByModel,
			Operation: "chat", Rules: book, Serve: c.serve},
		{Method: "GET", Path: "/responses/{id}", Access: routes.Bearer, Wallet: true, Form: routes.NoBody, Params: readParams,
			Offered: keeps, Serve: get},
		{Method: "DELETE", Path: "/responses/{id}", Access: routes.Bearer, Wallet: true, Form: routes.NoBody, Offered: keeps,
			Serve: remove},
		{Method: "GET", Path: "/responses/{id}/input_items", Access: routes.Bearer, Wallet: true, Form: routes.NoBody,
			Params: inputParams, Offered: keeps, Serve: inputs},
	}
}

// Load is routes.Loader.
func (*Capability) Load(cfg *config.Config, _ *providers.Catalog, _ any) (routes.View, error) {
	v := &view{keep: cfg.Responses.Keep, events: cfg.Compat.ResponsesEvents}
	v.sdk = form.Options{Brand: cfg.Brand, Aliases: cfg.BrandAliases, Extras: cfg.Compat.OpenAIExtras}
	v.spec = v.sdk
	v.spec.Spec = true
	return routes.View{Own: v}, nil
}

// view is the part of one config for responses.
type view struct {
	sdk, spec form.Options
	events    string        // compat.responses_events
	keep      time.Duration // how long answers are kept
}

// options are those for the client's form of answers and events.
func (v *view) options(h *fasthttp.RequestHeader) *form.Options {
	if v.events == "spec" || v.events == "auto" && !routes.FromOpenAI(h) {
		return &v.spec
	}
	return &v.sdk
}

// keeper keeps items for a request's account.
type keeper struct{ call *routes.Call }

// KeepItem is form.Keeper.
func (k keeper) KeepItem(id, item []byte) { k.call.Items().Put(id, item) }

// serve answers POST /responses.
func (c *Capability) serve(call *routes.Call) *routes.Error {
	rules := call.Rules()
	if e := call.ReadJSON(rules.Root); e != nil {
		return e
	}
	v := routes.Validator{Body: call.Body, Doc: &call.Doc, Book: rules}
	v.CheckAll()
	check(&v)
	if e := refuseEncrypted(call, &v); e != nil {
		return e
	}
	items, e := resolve(call, &v)
	if e != nil {
		return e
	}
	own := call.Own(c).(*view)
	talk, earlier, e := continued(call, &v, own.keep)
	if e != nil {
		return e
	}
	f := form.NewForm(own.options(&call.Ctx.Request.Header), call.Body, &call.Doc, call.ID[:], call.Began.Unix())
	reported := &routes.TranslatedChat{Form: f, Issues: v.Issues, Missing: items.missing}
	if f.Stores() && call.Items().On() {
		f.KeepItems(keeper{call})
	}
	if items.thoughtless {
		f.MissThoughts()
	}
	switch {
	case talk == nil:
		if form.Previous(call.Body, &call.Doc) != nil {
			f.MissPrevious()
		}
	case talk.missing != nil:
		reported.Missing = talk.missing
	default:
		if talk.turns != nil {
			f.Continue(earlier)
		}
		if f.Stores() {
			f.KeepResponse(talk)
		}
	}
	if len(v.Issues) > 0 {
		return c.texts.Sell(call, reported)
	}
	if model := asked(call, &v); model != nil && !model.Chat.Capabilities.WebSearch {
		f.Searchless()
	}
	f.Check()
	reported.Body = f.Request()
	reported.Wrong(f.Problems())
	return c.texts.Sell(call, reported)
}

// asked is the model that a body names, nil if absent.
func asked(call *routes.Call, v *routes.Validator) *providers.Model {
	name, _ := providers.SplitSuffix(v.Text(-1, form.TopModel))
	model, _ := call.Catalog().Resolve(name, "text")
	return model
}

// encrypted begins the names of models that answer in ciphertext only.
var encrypted = []byte("e2ee-")

// refuseEncrypted refuses models that need end-to-end encryption, which this form of
// asking has no room for (interface.md, Responses), also those that are not there; and
// others that run in enclaves, whose answers must not be rewritten.
func refuseEncrypted(call *routes.Call, v *routes.Validator) *routes.Error {
	name, model := v.Text(-1, form.TopModel), asked(call, v)
	if !bytes.HasPrefix(name, encrypted) && (model == nil ||
		model.Chat.Enclave == nil && !bytes.HasPrefix([]byte(model.ID), encrypted)) {
		return nil
	}
	return routes.Unsupported("model", "Models with end-to-end encryption, and others that run in enclaves, are not "+
		"served by /responses; use "+routes.Prefix+"/chat/completions.")
}
