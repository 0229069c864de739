package routes

import "farebox/proxy/scan"

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

var imageShape = scan.NewShape(
	scan.Member{Name: "model"}, scan.Member{Name: "user"}, scan.Member{Name: "modelId"}, scan.Member{Name: "prompt"},
	scan.Member{Name: "negative_prompt"}, scan.Member{Name: "width"}, scan.Member{Name: "height"}, scan.Member{Name: "aspect_ratio"},
	scan.Member{Name: "resolution"}, scan.Member{Name: "quality"}, scan.Member{Name: "steps"}, scan.Member{Name: "cfg_scale"},
	scan.Member{Name: "seed"}, scan.Member{Name: "num_images"}, scan.Member{Name: "variants"}, scan.Member{Name: "style_preset"},
	scan.Member{Name: "lora_strength"}, scan.Member{Name: "format"}, scan.Member{Name: "return_binary"}, scan.Member{Name: "safe_mode"},
	scan.Member{Name: "hide_watermark"}, scan.Member{Name: "embed_exif_metadata"}, scan.Member{Name: "enable_web_search"},
	scan.Member{Name: "enhance_prompt"}, scan.Member{Name: "disable_prompt_optimization_thinking"},
	scan.Member{Name: "style_references", Child: scan.NewShape(scan.Member{Name: "image"}, scan.Member{Name: "strength"})},
	scan.Member{Name: "inpaint"}, scan.Member{Name: "n"}, scan.Member{Name: "size"}, scan.Member{Name: "response_format"},
	scan.Member{Name: "output_format"}, scan.Member{Name: "style"}, scan.Member{Name: "background"}, scan.Member{Name: "moderation"},
	scan.Member{Name: "output_compression"}, scan.Member{Name: "image"}, scan.Member{Name: "image_2"}, scan.Member{Name: "image_3"},
	scan.Member{Name: "images"}, scan.Member{Name: "image_url"}, scan.Member{Name: "mask"}, scan.Member{Name: "scale"},
	scan.Member{Name: "enhance"}, scan.Member{Name: "enhanceCreativity"}, scan.Member{Name: "enhancePrompt"},
	scan.Member{Name: "replication"}, scan.Member{Name: "creativity"}, scan.Member{Name: "input_fidelity"},
	scan.Member{Name: "stream"}, scan.Member{Name: "partial_images"},
)

// Limits of the specification (interface.md, Limits; addendum 8).
const (
	maxImagePrompt    = 7500  // characters, /image/generate
	maxSimplePrompt   = 1500  // /images/generations, and enhancePrompt
	maxEditPrompt     = 32768 // /image/edit
	maxPixelSide      = 1280  // width and height of /image/generate
	defaultPixelSide  = 1024
	maxUpscaledPixels = 16_777_216
	maxReferenceSize  = 8 << 20 // bytes, must be less
)

var (
	outputFormats = []string{"jpeg", "png", "webp"}
	editRatios    = []string{"auto", "1:1", "3:2", "16:9", "21:9", "9:16", "2:3", "3:4", "4:5"}
	openAISizes   = []string{"auto", "256x256", "512x512", "1024x1024", "1536x1024", "1024x1536", "1792x1024", "1024x1792"}
)

// Rules that several endpoints have.
var (
	flagRule    = &rule{kinds: kBool}
	pictureRule = &rule{kinds: kString, nonEmpty: true}
	modelRule   = &rule{kinds: kString, nonEmpty: true, length: 256}
	promptRule  = &rule{kinds: kString, required: true, nonEmpty: true}
	tierRule    = &rule{kinds: kString, enum: []string{"low", "medium", "high"}}
)

// generateRules are the members of POST /image/generate (addendum 8.1).
var generateRules = map[string]*rule{
	"model": {kinds: kString, required: true, nonEmpty: true, length: 256}, "prompt": promptRule,
	"width": {kinds: kNumber, integer: true, min: 1, max: inf}, "height": {kinds: kNumber, integer: true, min: 1, max: inf},
	"aspect_ratio": {kinds: kString, nonEmpty: true, length: 10}, "resolution": {kinds: kString, nonEmpty: true, length: 10}, "quality": tierRule,
	"steps": {kinds: kNumber, integer: true, min: 1, max: inf}, "cfg_scale": {kinds: kNumber, min: 0, max: 20, above: true},
	"seed":       {kinds: kNumber, integer: true, min: -999_999_999, max: 999_999_999},
	"num_images": {kinds: kNumber, integer: true, min: 1, max: 4}, "variants": {kinds: kNumber, integer: true, min: 1, max: 4},
	"style_preset": {kinds: kString}, "lora_strength": {kinds: kNumber, integer: true, min: 0, max: 100},
	"format": {kinds: kString, enum: outputFormats}, "return_binary": flagRule, "safe_mode": flagRule, "hide_watermark": flagRule,
	"embed_exif_metadata": flagRule, "enable_web_search": flagRule, "enhance_prompt": flagRule, "disable_prompt_optimization_thinking": flagRule,
	"style_references": {kinds: kArray}, "style_references.image": {kinds: kString, required: true, nonEmpty: true},
	"style_references.strength": {kinds: kNumber, min: 0.1, max: 1},
	"inpaint":                   {kinds: kString | kNumber | kBool | kObject | kArray}, // retired; without effect
}

// simpleRules are the members of POST /images/generations (interface.md, Images; addendum 8.2).
var simpleRules = map[string]*rule{
	"model": modelRule, "prompt": promptRule, "n": {kinds: kNumber, integer: true, min: 1, max: 1},
	"size":            {kinds: kString, enum: openAISizes},
	"response_format": {kinds: kString, enum: []string{"b64_json", "url"}}, "output_format": {kinds: kString, enum: outputFormats},
	"quality": {kinds: kString, enum: []string{"auto", "high", "medium", "low", "hd", "standard"}},
	"style":   {kinds: kString, enum: []string{"vivid", "natural"}}, "background": {kinds: kString, enum: []string{"transparent", "opaque", "auto"}},
	"moderation": {kinds: kString, enum: []string{"auto", "low"}}, "output_compression": {kinds: kNumber, integer: true, min: 0, max: 100},
	"user": {kinds: kString},
}

// simpleEditRules are the members of POST /images/edits, which OpenAI's packages call.
var simpleEditRules = map[string]*rule{
	"model": modelRule, "prompt": promptRule, "n": simpleRules["n"], "size": simpleRules["size"], "response_format": simpleRules["response_format"],
	"output_format": simpleRules["output_format"], "quality": simpleRules["quality"], "background": simpleRules["background"],
	"moderation": simpleRules["moderation"], "output_compression": simpleRules["output_compression"], "user": simpleRules["user"],
	"image": {kinds: kString | kArray, nonEmpty: true}, "mask": pictureRule, "input_fidelity": {kinds: kString, enum: []string{"high", "low"}},
	"stream": flagRule, "partial_images": {kinds: kNumber, integer: true, min: 0, max: 3},
}

// editRules are the members of POST /image/edit (addendum 8.5).
var editRules = map[string]*rule{
	"model": modelRule, "modelId": modelRule, "prompt": promptRule, "image": pictureRule,
	"aspect_ratio": {kinds: kString, enum: editRatios}, "resolution": {kinds: kString, nonEmpty: true, length: 10},
	"output_format": {kinds: kString, enum: append([]string{"jpg"}, outputFormats...)}, "quality": tierRule, "safe_mode": flagRule,
	"enhance_prompt": flagRule, "disable_prompt_optimization_thinking": flagRule,
}

// multiEditRules are the members of POST /image/multi-edit (addendum 8.6, D30).
var multiEditRules = withRules(editRules, map[string]*rule{
	"image_2": pictureRule, "image_3": pictureRule, "images": {kinds: kArray, nonEmpty: true},
})

// upscaleRules are the members of POST /image/upscale (addendum 8.4). enhance
// may be text, and a creativity out of range is clamped.
var upscaleRules = map[string]*rule{
	"image": pictureRule, "scale": {kinds: kNumber, min: 1, max: 4}, "enhance": {kinds: kBool | kString, enum: []string{"true", "false"}},
	"enhanceCreativity": {kinds: kNumber, min: 0, max: 1}, "enhancePrompt": {kinds: kString}, "replication": {kinds: kNumber, min: 0, max: 1},
	"creativity": {kinds: kNumber},
}

// upscaleExtraRules are those with the model, which public packages send
// (compat.openai_extras).
var upscaleExtraRules = withRules(upscaleRules, map[string]*rule{"model": modelRule})

// cutOutRules are the members of POST /image/background-remove (addendum 8.7).
var cutOutRules = map[string]*rule{"image": pictureRule, "image_url": pictureRule}

func withRules(base, more map[string]*rule) map[string]*rule {
	all := map[string]*rule{}
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
	generateBook   = newRulebook(imageShape, generateRules)
	simpleBook     = newRulebook(imageShape, simpleRules)
	simpleEditBook = newRulebook(imageShape, simpleEditRules)
	editBook       = newRulebook(imageShape, editRules)
	multiEditBook  = newRulebook(imageShape, multiEditRules)
	upscaleBook    = newRulebook(imageShape, upscaleRules)
	cutOutBook     = newRulebook(imageShape, cutOutRules)

	upscaleExtraBook = newRulebook(imageShape, upscaleExtraRules)
)
