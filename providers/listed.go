package providers

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"regexp"
	"slices"
	"strings"

	"github.com/rs/zerolog"
	"github.com/tidwall/gjson"

	"farebox/config"
	"farebox/config/prices"
	"farebox/providers/credential"
)

const (
	listedRead  = 8 << 20 // of a list of models
	mostListed  = 2000
	ollamaTimes = 100 // models of an Ollama server that are asked for
)

// ListModels asks an upstream for its models, which is free. It knows the lists of OpenAI, Anthropic, Gemini, vLLM and
// OpenRouter, and Ollama's details of each model. Members that the server omits are zero.
func ListModels(u *config.Upstream) ([]prices.Model, error) {
	o := targetOptions(u)
	a, err := newAsker(o.BaseURL, u.CAFile, u.Timeouts.Connect, o.Headers)
	if err != nil {
		return nil, err
	}
	if a.proof, err = credential.Open(credential.Of(u), zerolog.Nop()); err != nil {
		return nil, err
	}
	if a.proof != nil {
		defer a.proof.Close()
	}
	a.limit = listedRead
	a.query = dialects[u.Spoken()].longList
	status, body, err := a.get("GET", "/models", "")
	if err == nil && (status == 404 || status == 405) {
		err = a.misplaced(u, status)
	}
	if err == nil {
		_, err = statusResult(status, body, a.headers)
	}
	if err != nil {
		return nil, err
	}
	if !json.Valid(body) {
		return nil, errors.New("the list of models is not JSON, or it is longer than 8 MB")
	}
	var list []prices.Model
	entries := gjson.GetBytes(body, "data")
	if !entries.Exists() {
		entries = gjson.GetBytes(body, "models")
	}
	for _, e := range entries.Array() {
		if m := listedModel(e); m.Name != "" && len(list) < mostListed {
			list = append(list, m)
		}
	}
	a.askOllama(list)
	return list, nil
}

// listedModel reads an entry of a list of models.
func listedModel(e gjson.Result) prices.Model {
	m := prices.Model{Name: e.Get("id").String()}
	if m.Name == "" {
		m.Name = strings.TrimPrefix(e.Get("name").String(), "models/")
	}
	if !listedName.MatchString(m.Name) {
		return prices.Model{}
	}
	for _, key := range []string{"max_model_len", "context_length", "context_window", "inputTokenLimit", "max_input_tokens"} {
		if n := e.Get(key).Int(); n > 0 && n <= 100_000_000 {
			m.Context = n
			break
		}
	}
	for _, key := range []string{"top_provider.max_completion_tokens", "outputTokenLimit", "max_tokens"} {
		if n := e.Get(key).Int(); n > 0 && n <= m.Context {
			m.Output = n
			break
		}
	}
	cost := func(key string) *big.Rat {
		r, ok := prices.ParseCost(e.Get("pricing." + key).String())
		if !ok || r.Sign() == 0 {
			return nil
		}
		return r
	}
	m.Price = prices.Price{Input: cost("prompt"), Output: cost("completion"), CacheRead: cost("input_cache_read"),
		CacheWrite: cost("input_cache_write")}
	has := func(list, word string) bool {
		return slices.ContainsFunc(e.Get(list).Array(), func(r gjson.Result) bool { return r.String() == word })
	}
	m.Tools, m.Schema = has("supported_parameters", "tools"), has("supported_parameters", "structured_outputs")
	m.Reasons, m.Vision = has("supported_parameters", "reasoning"), has("architecture.input_modalities", "image")
	return m
}

// listedName is a model's name that a config can have.
var listedName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:/@+-]{0,127}$`)

// askOllama adds the details of models at an Ollama server. Other servers have no such
// endpoint.
func (a *asker) askOllama(list []prices.Model) {
	at := *a
	at.base = strings.TrimSuffix(strings.TrimSuffix(a.base, "/v1"), "/")
	for i := range list[:min(len(list), ollamaTimes)] {
		name, _ := json.Marshal(list[i].Name)
		status, body, err := at.get("POST", "/api/show", fmt.Sprintf(`{"model":%s}`, name))
		if err != nil || status != 200 || !json.Valid(body) {
			return
		}
		m := &list[i]
		gjson.GetBytes(body, "model_info").ForEach(func(key, value gjson.Result) bool {
			if n := value.Int(); strings.HasSuffix(key.String(), ".context_length") && n > 0 && n <= 100_000_000 {
				m.Context = n
			}
			return true
		})
		for _, word := range gjson.GetBytes(body, "capabilities").Array() {
			switch word.String() {
			case "tools":
				m.Tools = true
			case "vision":
				m.Vision = true
			case "thinking":
				m.Reasons = true
			case "embedding":
				m.Embedding = true
			}
		}
	}
}
