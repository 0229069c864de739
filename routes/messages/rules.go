package messages

import (
	"math"

	form "farebox/providers/chat/messages"
	"farebox/routes"
)

// ofBody are the rules of a body's members that both endpoints have. The members of a block are
// checked where it is read.
var ofBody = map[string]*routes.Rule{
	"model":          {Kinds: routes.String, Required: true, NonEmpty: true, Length: 256},
	"messages":       {Kinds: routes.Array, Required: true, NonEmpty: true, Length: 100_000},
	"system":         {Kinds: routes.String | routes.Array},
	"metadata":       {Kinds: routes.Object},
	"temperature":    {Kinds: routes.Number, Min: 0, Max: 1},
	"top_p":          {Kinds: routes.Number, Min: 0, Max: 1},
	"top_k":          {Kinds: routes.Number, Integer: true, Min: 0, Max: math.Inf(1)},
	"stream":         {Kinds: routes.Bool},
	"stop_sequences": {Kinds: routes.Array, Elements: stopRule},
	"tools":          {Kinds: routes.Array, Length: 1024},
	"tool_choice":    {Kinds: routes.Object},
	"thinking":       {Kinds: routes.Object},
	"output_config":  {Kinds: routes.Object},
	"output_format":  {Kinds: routes.Object},
	"cache_control":  {Kinds: routes.Object},

	"service_tier":       {Kinds: routes.String},
	"context_management": {Kinds: routes.Object},
	"speed":              {Kinds: routes.String},

	"messages.role": {Kinds: routes.String, Required: true, Enum: []string{"user", "assistant", "system"}},
	"messages.content": {
		Kinds: routes.String | routes.Array, Required: true,
	},
	"messages.content.type":          {Kinds: routes.String, Required: true},
	"messages.content.text":          {Kinds: routes.String},
	"messages.content.cache_control": {Kinds: routes.Object},
	"messages.content.title":         {Kinds: routes.String},
	"messages.content.context":       {Kinds: routes.String},
	"messages.content.id":            {Kinds: routes.String, NonEmpty: true},
	"messages.content.name":          {Kinds: routes.String, NonEmpty: true, Length: 256},
	"messages.content.input":         {Kinds: routes.Object},
	"messages.content.tool_use_id":   {Kinds: routes.String, NonEmpty: true},
	"messages.content.content":       {Kinds: routes.String | routes.Array | routes.Object},
	"messages.content.is_error":      {Kinds: routes.Bool},
	"messages.content.thinking":      {Kinds: routes.String},
	"messages.content.signature":     {Kinds: routes.String},
	"messages.content.data":          {Kinds: routes.String},

	"messages.content.cache_control.type": cacheRule,
	"messages.content.cache_control.ttl":  lifeRule,
	"messages.content.content.type":       {Kinds: routes.String, Required: true},
	"messages.content.content.text":       {Kinds: routes.String},

	"system.type":               {Kinds: routes.String, Required: true},
	"system.text":               {Kinds: routes.String},
	"system.cache_control":      {Kinds: routes.Object},
	"system.cache_control.type": cacheRule,
	"system.cache_control.ttl":  lifeRule,

	"tools.type":               {Kinds: routes.String},
	"tools.name":               {Kinds: routes.String, Required: true, NonEmpty: true, Length: 256},
	"tools.description":        {Kinds: routes.String},
	"tools.input_schema":       {Kinds: routes.Object},
	"tools.strict":             {Kinds: routes.Bool},
	"tools.cache_control":      {Kinds: routes.Object},
	"tools.cache_control.type": cacheRule,
	"tools.cache_control.ttl":  lifeRule,

	"tool_choice.type": {Kinds: routes.String, Required: true, Enum: []string{"auto", "any", "tool", "none"}},
	"tool_choice.name": {Kinds: routes.String, NonEmpty: true},
	"tool_choice.disable_parallel_tool_use": {
		Kinds: routes.Bool,
	},
	"thinking.type": {
		Kinds: routes.String, Required: true, Enum: []string{"enabled", "adaptive", "disabled", "between_tools"},
	},
	"thinking.budget_tokens": {Kinds: routes.Number, Integer: true, Min: 1024, Max: math.Inf(1)},
	"thinking.display":       {Kinds: routes.String, Enum: []string{"summarized", "omitted", "updates"}},
	"output_config.effort":   {Kinds: routes.String, Enum: []string{"low", "medium", "high", "xhigh", "max"}},
	"output_config.format":   {Kinds: routes.Object},
	"metadata.user_id":       {Kinds: routes.String, Length: 256},
}

var (
	stopRule  = &routes.Rule{Kinds: routes.String, Required: true, NonEmpty: true, Length: 4096}
	cacheRule = &routes.Rule{Kinds: routes.String, Required: true, Enum: []string{"ephemeral"}}
	lifeRule  = &routes.Rule{Kinds: routes.String, Enum: []string{"5m", "1h"}}
)

// Books of the two endpoints.
var (
	askBook   = bookOf(true)
	countBook = bookOf(false)
)

func bookOf(asks bool) *routes.Rulebook {
	rules := map[string]*routes.Rule{
		"max_tokens": {Kinds: routes.Number, Required: asks, Integer: true, Min: 1, Max: math.Inf(1)},
	}
	for name, rule := range ofBody {
		rules[name] = rule
	}
	return routes.NewRulebook(form.Shape, rules).OpenToMore()
}

// checkStops applies the rule of its elements to stop_sequences.
func checkStops(v *routes.Validator) { v.CheckElements(form.TopStop) }
