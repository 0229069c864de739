package image

import (
	"math"

	"farebox/proxy/scan"
	"farebox/routes"
)

// Ids of the members of all bodies that ask for pictures (interface.md, Images;
// addendum 8). One Shape names them all; which of them an endpoint takes is in
// its rules, and every other one is refused.
const (
	imageModel = iota
	imageUser
	imageModelID
	imagePrompt
	imageNegativePrompt
	imageWidth
	imageHeight
	imageAspectRatio
	imageResolution
	imageQuality
	imageSteps
	imageCFGScale
	imageSeed
	imageNumImages
	imageVariants
	imageStylePreset
	imageLoraStrength
	imageFormat
	imageReturnBinary
	imageSafeMode
	imageHideWatermark
	imageEmbedEXIF
	imageWebSearch
	imageEnhancePrompt
	imageDisableThinking
	imageStyleReferences
	imageInpaint
	imageN
	imageSize
	imageResponseFormat
	imageOutputFormat
	imageStyle
	imageBackground
	imageModeration
	imageOutputCompression
	imageImage
	imageImage2
	imageImage3
	imageImages
	imageURL
	imageMask
	imageScale
	imageEnhance
	imageEnhanceCreativity
	imageEnhanceWords
	imageReplication
	imageCreativity
	imageInputFidelity
	imageStream
	imagePartialImages
)

// Ids of the members of a style reference.
const (
	referenceImage = iota
	referenceStrength
)

var imageShape = scan.NewShape(scan.Members(map[string]*scan.Shape{
	"style_references": scan.NewShape(scan.Members(nil, "image", "strength")...),
},
	"model", "user", "modelId", "prompt", "negative_prompt", "width", "height", "aspect_ratio", "resolution",
	"quality", "steps", "cfg_scale", "seed", "num_images", "variants", "style_preset", "lora_strength", "format",
	"return_binary", "safe_mode", "hide_watermark", "embed_exif_metadata", "enable_web_search", "enhance_prompt",
	"disable_prompt_optimization_thinking", "style_references", "inpaint", "n", "size", "response_format",
	"output_format", "style", "background", "moderation", "output_compression", "image", "image_2", "image_3",
	"images", "image_url", "mask", "scale", "enhance", "enhanceCreativity", "enhancePrompt", "replication",
	"creativity", "input_fidelity", "stream", "partial_images",
)...)

// Limits of the specification (interface.md, Limits; addendum 8).
const (
	maxPixelSide      = 1280 // width and height of /image/generate
	defaultPixelSide  = 1024
	maxUpscaledPixels = 16_777_216
	maxReferenceSize  = 8 << 20 // bytes, must be less
)

var (
	outputFormats = []string{"jpeg", "png", "webp"}
	editRatios    = []string{"auto", "1:1", "3:2", "16:9", "21:9", "9:16", "2:3", "3:4", "4:5"}
	openAISizes   = []string{"auto", "256x256", "512x512", "1024x1024", "1536x1024", "1024x1536", "1792x1024",
		"1024x1792"}
)

var inf = math.Inf(1)

// Rules that several endpoints have.
var (
	flagRule    = &routes.Rule{Kinds: routes.Bool}
	pictureRule = &routes.Rule{Kinds: routes.String, NonEmpty: true}
	modelRule   = &routes.Rule{Kinds: routes.String, NonEmpty: true, Length: 256}
	editPrompt  = &routes.Rule{Kinds: routes.String, Required: true, NonEmpty: true, Characters: 32768}
	tierRule    = &routes.Rule{Kinds: routes.String, Enum: []string{"low", "medium", "high"}}
)

// generateRules are the members of POST /image/generate (addendum 8.1).
var generateRules = map[string]*routes.Rule{
	"model":        {Kinds: routes.String, Required: true, NonEmpty: true, Length: 256},
	"prompt":       {Kinds: routes.String, Required: true, NonEmpty: true, Characters: 7500},
	"width":        {Kinds: routes.Number, Integer: true, Min: 1, Max: inf},
	"height":       {Kinds: routes.Number, Integer: true, Min: 1, Max: inf},
	"aspect_ratio": {Kinds: routes.String, NonEmpty: true, Length: 10},
	"resolution":   {Kinds: routes.String, NonEmpty: true, Length: 10}, "quality": tierRule,
	"steps":        {Kinds: routes.Number, Integer: true, Min: 1, Max: inf},
	"cfg_scale":    {Kinds: routes.Number, Min: 0, Max: 20, Above: true},
	"seed":         {Kinds: routes.Number, Integer: true, Min: -999_999_999, Max: 999_999_999},
	"num_images":   {Kinds: routes.Number, Integer: true, Min: 1, Max: 4},
	"variants":     {Kinds: routes.Number, Integer: true, Min: 1, Max: 4},
	"style_preset": {Kinds: routes.String}, "lora_strength": {Kinds: routes.Number, Integer: true, Min: 0, Max: 100},
	"format": {Kinds: routes.String, Enum: outputFormats}, "return_binary": flagRule, "safe_mode": flagRule,
	"hide_watermark":      flagRule,
	"embed_exif_metadata": flagRule, "enable_web_search": flagRule, "enhance_prompt": flagRule,
	"disable_prompt_optimization_thinking": flagRule,
	"style_references":                     {Kinds: routes.Array},
	"style_references.image":               {Kinds: routes.String, Required: true, NonEmpty: true},
	"style_references.strength":            {Kinds: routes.Number, Min: 0.1, Max: 1},
	// retired; without effect
	"inpaint": {Kinds: routes.String | routes.Number | routes.Bool | routes.Object | routes.Array},
}

// simpleRules are the members of POST /images/generations (interface.md, Images; addendum 8.2).
var simpleRules = map[string]*routes.Rule{
	"model": modelRule, "prompt": {Kinds: routes.String, Required: true, NonEmpty: true, Characters: 1500},
	"n":                  {Kinds: routes.Number, Integer: true, Min: 1, Max: 1},
	"size":               {Kinds: routes.String, Enum: openAISizes},
	"response_format":    {Kinds: routes.String, Enum: []string{"b64_json", "url"}},
	"output_format":      {Kinds: routes.String, Enum: outputFormats},
	"quality":            {Kinds: routes.String, Enum: []string{"auto", "high", "medium", "low", "hd", "standard"}},
	"style":              {Kinds: routes.String, Enum: []string{"vivid", "natural"}},
	"background":         {Kinds: routes.String, Enum: []string{"transparent", "opaque", "auto"}},
	"moderation":         {Kinds: routes.String, Enum: []string{"auto", "low"}},
	"output_compression": {Kinds: routes.Number, Integer: true, Min: 0, Max: 100},
	"user":               {Kinds: routes.String},
}

// larger are the rules of more pictures and longer prompts (compat.openai_images).
var larger = map[string]*routes.Rule{"n": {Kinds: routes.Number, Integer: true, Min: 1, Max: 4}, "prompt": editPrompt}

// simpleEditRules are the members of POST /images/edits, which OpenAI's packages call.
var simpleEditRules = map[string]*routes.Rule{
	"model": modelRule, "prompt": editPrompt, "n": simpleRules["n"], "size": simpleRules["size"],
	"response_format": simpleRules["response_format"],
	"output_format":   simpleRules["output_format"], "quality": simpleRules["quality"],
	"background": simpleRules["background"],
	"moderation": simpleRules["moderation"], "output_compression": simpleRules["output_compression"],
	"user":  simpleRules["user"],
	"image": {Kinds: routes.String | routes.Array, NonEmpty: true, Elements: pictureRule},
	"mask":  pictureRule, "input_fidelity": {Kinds: routes.String, Enum: []string{"high", "low"}},
	"stream": flagRule, "partial_images": {Kinds: routes.Number, Integer: true, Min: 0, Max: 3},
}

// editRules are the members of POST /image/edit (addendum 8.5).
var editRules = map[string]*routes.Rule{
	"model": modelRule, "modelId": modelRule, "prompt": editPrompt, "image": pictureRule,
	"aspect_ratio":  {Kinds: routes.String, Enum: editRatios},
	"resolution":    {Kinds: routes.String, NonEmpty: true, Length: 10},
	"output_format": {Kinds: routes.String, Enum: append([]string{"jpg"}, outputFormats...)}, "quality": tierRule,
	"safe_mode":      flagRule,
	"enhance_prompt": flagRule, "disable_prompt_optimization_thinking": flagRule,
}

// multiEditRules are the members of POST /image/multi-edit (addendum 8.6, D30).
var multiEditRules = withRules(editRules, map[string]*routes.Rule{
	"image_2": pictureRule, "image_3": pictureRule, "images": {Kinds: routes.Array, NonEmpty: true,
		Elements: pictureRule},
})

// upscaleRules are the members of POST /image/upscale (addendum 8.4). enhance
// may be text, and a creativity out of range is clamped.
var upscaleRules = map[string]*routes.Rule{
	"image": pictureRule, "scale": {Kinds: routes.Number, Min: 1, Max: 4},
	"enhance":           {Kinds: routes.Bool | routes.String, Enum: []string{"true", "false"}},
	"enhanceCreativity": {Kinds: routes.Number, Min: 0, Max: 1},
	"enhancePrompt":     {Kinds: routes.String, Characters: 1500},
	"replication":       {Kinds: routes.Number, Min: 0, Max: 1}, "creativity": {Kinds: routes.Number},
}

// upscaleExtraRules are those with the model, which public packages send
// (compat.openai_extras).
var upscaleExtraRules = withRules(upscaleRules, map[string]*routes.Rule{"model": modelRule})

// cutOutRules are the members of POST /image/background-remove (addendum 8.7).
var cutOutRules = map[string]*routes.Rule{"image": pictureRule, "image_url": pictureRule}

func withRules(base, more map[string]*routes.Rule) map[string]*routes.Rule {
	all := map[string]*routes.Rule{}
	for name, r := range base {
		all[name] = r
	}
	for name, r := range more {
		all[name] = r
	}
	return all
}

// The rulebooks; they are the same for every brand and config.
var (
	generateBook   = newBook(generateRules)
	simpleBook     = newBook(simpleRules)
	simpleEditBook = newBook(simpleEditRules)
	// largerBook and largerEditBook are those with compat.openai_images.
	largerBook     = newBook(withRules(simpleRules, larger))
	largerEditBook = newBook(withRules(simpleEditRules, larger))
	editBook       = newBook(editRules)
	multiEditBook  = newBook(multiEditRules)
	upscaleBook    = newBook(upscaleRules)
	cutOutBook     = newBook(cutOutRules)

	upscaleExtraBook = newBook(upscaleExtraRules)
)

func newBook(rules map[string]*routes.Rule) *routes.Rulebook {
	b := routes.NewRulebook(imageShape, rules)
	b.Hints = map[string]string{"negative_prompt": " Describe unwanted content in the prompt instead."}
	return b
}
