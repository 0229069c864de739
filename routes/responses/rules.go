package responses

import (
	"maps"
	"math"
	"strings"

	"github.com/tidwall/gjson"

	"farebox/config"
	form "farebox/providers/chat/responses"
	"farebox/proxy/scan"
	"farebox/routes"
)

var (
	inf         = math.Inf(1)
	efforts     = []string{"none", "minimal", "low", "medium", "high", "xhigh", "max"}
	verbosities = []string{"low", "medium", "high", "auto"}
	details     = []string{"auto", "low", "high", "original"}
	anything    = routes.String | routes.Number | routes.Bool | routes.Null | routes.Object | routes.Array
)

// top are the rules of a body's own members. Members that are not here say nothing, or
// are checked as those of the chat body.
var top = map[string]*routes.Rule{
	"model":               {Kinds: routes.String, Required: true, NonEmpty: true, Length: 256},
	"input":               {Kinds: routes.String | routes.Array, Required: true, NonEmpty: true},
	"instructions":        {Kinds: routes.String},
	"stream":              {Kinds: routes.Bool},
	"max_output_tokens":   {Kinds: routes.Number, Integer: true, Min: 1, Max: inf},
	"temperature":         {Kinds: routes.Number, Min: 0, Max: 2},
	"top_p":               {Kinds: routes.Number, Min: 0, Max: 1},
	"tools":               {Kinds: routes.Array, Length: 1024},
	"tool_choice":         {Kinds: routes.String | routes.Object, Enum: []string{"none", "auto", "required"}},
	"parallel_tool_calls": {Kinds: routes.Bool},
	"text":                {Kinds: routes.Object},
	"reasoning":           {Kinds: routes.Object},
	"include":             {Kinds: routes.Array, Elements: &routes.Rule{Kinds: routes.String, Required: true}},
	"metadata":            {Kinds: routes.Object},
	"top_logprobs":        {Kinds: routes.Number, Integer: true, Min: 0, Max: 20},
	"truncation":          {Kinds: routes.String, Enum: []string{"auto", "disabled"}},
	"fallbacks":           {Kinds: routes.Array, Length: 10},
	"web_search":          {Kinds: routes.Bool},
	"user":                {Kinds: routes.String},
	"prompt_cache_key":    {Kinds: routes.String},

	"prompt_cache_retention": {Kinds: routes.String},
	"service_tier":           {Kinds: routes.String},
	"safety_identifier":      {Kinds: routes.String},
	"client_metadata":        {Kinds: routes.Object},
}

// nested are the rules of members of objects inside a body.
var nested = map[string]*routes.Rule{
	"reasoning.effort":        {Kinds: routes.String, Enum: efforts},
	"reasoning.summary":       {Kinds: routes.String, Enum: []string{"auto", "concise", "detailed"}},
	"text.format":             {Kinds: routes.Object},
	"text.format.type":        {Kinds: routes.String, Required: true, Enum: []string{"text", "json_schema", "json_object"}},
	"text.format.name":        {Kinds: routes.String, NonEmpty: true, Length: 256},
	"text.format.description": {Kinds: routes.String},
	"text.format.schema":      {Kinds: routes.Object},
	"text.format.strict":      {Kinds: routes.Bool},
	"text.verbosity":          {Kinds: routes.String, Enum: verbosities},
	"fallbacks.model":         {Kinds: routes.String, Required: true, NonEmpty: true},
	"tool_choice.type":        {Kinds: routes.String, Required: true},
	"tool_choice.name":        {Kinds: routes.String, NonEmpty: true},
	"tool_choice.function":    {Kinds: routes.Object},
	"tool_choice.mode":        {Kinds: routes.String, Enum: []string{"auto", "required"}},
	"tool_choice.tools":       {Kinds: routes.Array},
	"tools.type":              {Kinds: routes.String, Required: true},
	"tools.name":              {Kinds: routes.String, NonEmpty: true, Length: 256},
	"tools.description":       {Kinds: routes.String},
	"tools.parameters":        {Kinds: routes.Object},
	"tools.strict":            {Kinds: routes.Bool},
	"tools.function":          {Kinds: routes.Object},
	"tools.custom":            {Kinds: routes.Object},
	"tools.format":            {Kinds: routes.Object},
	"tools.tools":             {Kinds: routes.Array, Length: 1024},
	"tools.execution":         {Kinds: routes.String, Enum: []string{"client", "server"}},

	"tool_choice.function.name":        {Kinds: routes.String, NonEmpty: true},
	"tool_choice.custom":               {Kinds: routes.Object},
	"tool_choice.custom.name":          {Kinds: routes.String, NonEmpty: true},
	"tool_choice.tools.type":           {Kinds: routes.String, Required: true},
	"tool_choice.tools.name":           {Kinds: routes.String, NonEmpty: true},
	"tool_choice.namespace":            {Kinds: routes.String},
	"tool_choice.tools.namespace":      {Kinds: routes.String},
	"tool_choice.tools.function":       {Kinds: routes.Object},
	"tool_choice.tools.function.name":  {Kinds: routes.String, NonEmpty: true},
	"tool_choice.tools.custom":         {Kinds: routes.Object},
	"tool_choice.tools.custom.name":    {Kinds: routes.String, NonEmpty: true},
	"tools.allowed_x_handles":          {Kinds: routes.Array, Length: 10},
	"tools.excluded_x_handles":         {Kinds: routes.Array, Length: 10},
	"tools.from_date":                  {Kinds: routes.String},
	"tools.to_date":                    {Kinds: routes.String},
	"tools.enable_image_understanding": {Kinds: routes.Bool},
	"tools.enable_video_understanding": {Kinds: routes.Bool},

	"input.type":              {Kinds: routes.String},
	"input.role":              {Kinds: routes.String, Enum: []string{"user", "assistant", "system", "developer"}},
	"input.content":           {Kinds: routes.String | routes.Array},
	"input.id":                {Kinds: routes.String},
	"input.status":            {Kinds: routes.String, Enum: []string{"completed", "in_progress", "incomplete", "failed"}},
	"input.summary":           {Kinds: routes.Array},
	"input.encrypted_content": {Kinds: routes.String},
	"input.call_id":           {Kinds: routes.String, NonEmpty: true},
	"input.name":              {Kinds: routes.String, NonEmpty: true},
	"input.arguments":         {Kinds: routes.String | routes.Object},
	"input.output":            {Kinds: anything},
	"input.input":             {Kinds: routes.String},
	"input.phase":             {Kinds: routes.String},
	"input.namespace":         {Kinds: routes.String},
	"input.tools":             {Kinds: routes.Array, Length: 1024},
	"input.action":            {Kinds: routes.Object},
	"input.execution":         {Kinds: routes.String, Enum: []string{"client", "server"}},
	"input.content.type":      {Kinds: routes.String, Required: true},
	"input.content.text":      {Kinds: routes.String},
	"input.content.refusal":   {Kinds: routes.String},
	"input.content.image_url": {Kinds: routes.String | routes.Object, NonEmpty: true},
	"input.content.detail":    {Kinds: routes.String, Enum: details},
	"input.content.file_data": {Kinds: routes.String, NonEmpty: true},
	"input.content.filename":  {Kinds: routes.String},
	"input.content.file_url":  {Kinds: routes.String, NonEmpty: true},
	"input.content.file":      {Kinds: routes.Object},

	"input.content.cache_control.type": {Kinds: routes.String},
	"input.content.cache_control.ttl":  {Kinds: routes.String},
	"input.content.image_url.url":      {Kinds: routes.String},
	"input.content.image_url.detail":   {Kinds: routes.String, Enum: details},
}

// ofInner are the rules of the members of a tool's function or custom, too.
var ofInner = []string{"name", "description", "parameters", "strict", "format"}

// book describes a body under a config: its brand's words are in it.
func book(cfg *config.Config) *routes.Rulebook {
	rules := maps.Clone(top)
	maps.Copy(rules, nested)
	for _, name := range ofInner {
		rules["tools.function."+name], rules["tools.custom."+name] = nested["tools."+name], nested["tools."+name]
	}
	// The tools of a namespace, and those that items of the input add.
	for _, list := range []string{"tools.tools.", "input.tools.", "input.tools.tools."} {
		for path, rule := range maps.Clone(rules) {
			if member, ok := strings.CutPrefix(path, "tools."); ok && strings.Count(path, ".") <= 2 &&
				!strings.HasPrefix(member, "tools") {
				rules[list+member] = rule
			}
		}
	}
	rules["input.tools.tools"] = nested["tools.tools"]
	for _, word := range append([]string{cfg.Brand}, cfg.BrandAliases...) {
		rules[word+"_parameters"] = &routes.Rule{Kinds: routes.Object}
		for member, rule := range parameters {
			rules[word+"_parameters."+member] = rule
		}
		rules[word+"_parameters.include_"+word+"_system_prompt"] = &routes.Rule{Kinds: routes.Bool}
	}
	return routes.NewRulebook(form.Shape(cfg.Brand, cfg.BrandAliases), rules).OpenToMore()
}

// parameters are the rules of those <brand>_parameters that have an effect (addendum
// 5.3); the others are dropped, whatever they say.
var parameters = map[string]*routes.Rule{
	"enable_web_search":                {Kinds: routes.String, Enum: []string{"off", "on", "auto"}},
	"character_slug":                   {Kinds: routes.String, NonEmpty: true, Length: 256},
	"enable_e2ee":                      {Kinds: routes.Bool},
	"enable_web_scraping":              {Kinds: routes.Bool},
	"enable_web_citations":             {Kinds: routes.Bool},
	"include_search_results_in_stream": {Kinds: routes.Bool},
}

// check applies rules about several members.
func check(v *routes.Validator) {
	v.CheckElements(form.TopInclude)
	if i := v.Doc.TopIndex(form.TopMetadata); i >= 0 && v.Doc.Fields[i].Kind == scan.Object {
		gjson.Parse(routes.ViewString(v.Doc.Fields[i].Raw(v.Body))).ForEach(func(key, value gjson.Result) bool {
			if value.Type != gjson.String {
				name := routes.Excerpt(routes.ViewBytes(key.Str))
				v.Add(routes.Issue{Code: "invalid_type", Path: "metadata", Named: name, Expected: "string",
					Message: "metadata." + name + ": expected string."})
			}
			return len(v.Issues) < routes.MaxIssues
		})
	}
	tools := v.Doc.TopIndex(form.TopTools)
	if tools < 0 || v.Doc.Fields[tools].Kind != scan.Array {
		return
	}
	for i := tools + 1; i < v.Doc.Fields[tools].Next; i = v.Doc.Fields[i].Next {
		if string(v.Text(i, form.ToolType)) == "function" && v.Member(i, form.ToolName) == nil &&
			v.Member(i, form.ToolFunction) == nil {
			v.Missing(v.Doc.Path(i)+".name", "string", "is required in a tool of type function.")
		}
	}
}
