package jobs

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"farebox/config"
	"farebox/providers/queue"
	"farebox/proxy/scan"
	"farebox/routes"
)

// musicModelOf is a model of music with the given keys.
func musicModelOf(t testing.TB, keys string) *config.Music {
	t.Helper()
	text := `
upstreams: [{ name: a, dialect: native, base_url: "http://127.0.0.1:1" }]
models:
  - id: m
    type: music
    targets: [{ upstream: a }]
` + keys
	cfg, err := config.Parse("test.yaml", []byte(text), func(string) (string, bool) { return "", false })
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return cfg.Models[0].Spec.(*config.Music)
}

// musicFormOf reads a body as an endpoint does that has found its model.
func musicFormOf(t testing.TB, m *config.Music, book *routes.Rulebook, body string) (*musicForm, *routes.Error) {
	t.Helper()
	var doc scan.Document
	if err := doc.SkimStrict([]byte(body), musicShape); err != nil {
		t.Fatalf("%v: %s", err, body)
	}
	f := &musicForm{form: music.newForm([]byte(body), &doc, book), model: m}
	if f.spec, f.id = m, "m"; len(f.Issues) > 0 {
		return f, routes.Invalid(f.Issues...)
	}
	return f, nil
}

func orderOf(t testing.TB, m *config.Music, body string) (*queue.Order, *routes.Error) {
	t.Helper()
	f, e := musicFormOf(t, m, musicQueueBook, body)
	if e != nil {
		return nil, e
	}
	return f.order()
}

const (
	songModel = `
    capabilities: { lyrics: true, lyrics_optimizer: true, force_instrumental: true }
    constraints: { durations: [60, 120], min_duration: 60, max_duration: 120, prompt_characters: 20, lyrics_characters: 30 }
    price: { durations: { 60: { price: 0.69, min_seconds: 3, max_seconds: 60 }, 120: { price: 1.38, min_seconds: 61, max_seconds: 120 } } }
`
	plainModel = `
    constraints: { min_prompt_characters: 1 }
    price: { generation: 0.18 }
`
	choiceModel = `
    capabilities: { loop: true }
    constraints: { min_prompt_characters: 1, durations: [5, 10] }
    price: { per_second: 0.0023 }
`
	voiceModel = `
    voices: [Aria, Roger]
    capabilities: { language_code: true, speed: true }
    constraints: { min_prompt_characters: 1, prompt_characters: 40, min_speed: 0.5, max_speed: 2, default_speed: 1.5 }
    price: { per_thousand_characters: 0.115 }
`
	customModel = `
    voices: [Aria]
    custom_voice_ids: true
    constraints: { min_prompt_characters: 1 }
    price: free
`
	sungModel = `
    capabilities: { lyrics: true, lyrics_required: true }
    constraints: { min_prompt_characters: 1 }
    price: { per_thousand_characters: 0.115 }
`
	writerModel = `
    capabilities: { lyrics: true, lyrics_required: true, lyrics_optimizer: true }
    constraints: { min_prompt_characters: 1 }
    price: { generation: 0.18 }
`
)

// Every rule of addendum 9.6, on both of its sides.
func TestRulesOfAModel(t *testing.T) {
	t.Parallel()
	models := map[string]*config.Music{}
	for name, keys := range map[string]string{"song": songModel, "plain": plainModel, "choice": choiceModel,
		"voice": voiceModel, "custom": customModel, "sung": sungModel, "writer": writerModel} {
		models[name] = musicModelOf(t, keys)
	}
	const prompt = `"prompt":"a quiet song"`
	f := func(model, body, want string) {
		t.Helper()
		o, e := orderOf(t, models[model], `{"model":"m",`+body+`}`)
		switch {
		case e == nil && want != "":
			t.Errorf("%s of %s is taken: %+v", body, model, o)
		case e != nil && want == "":
			t.Errorf("%s of %s is refused: %+v", body, model, e)
		case e != nil:
			code, path, _ := strings.Cut(want, " ")
			if len(e.Issues) != 1 || e.Status != 400 || e.Issues[0].Code != code || e.Unsupported != (code == "custom" &&
				!strings.HasPrefix(path, "!")) || e.Issues[0].Path+e.Issues[0].Named != strings.TrimPrefix(path, "!") {
				t.Errorf("%s of %s is refused as %+v, want %s", body, model, e, want)
			}
		}
	}
	const unsupported, wrong = "custom ", "custom !"

	f("song", prompt, "")
	f("song", `"prompt":"short one"`, "too_small prompt")
	f("song", `"prompt":"ten letters"`, "")
	f("song", `"prompt":"`+strings.Repeat("é", 20)+`"`, "")
	f("song", `"prompt":"`+strings.Repeat("é", 21)+`"`, "too_big prompt")
	f("song", `"prompt":"`+strings.Repeat(`\u00e9`, 20)+`"`, "")
	f("song", `"prompt":"            "`, "too_small prompt")
	f("song", `"prompt":""`, "too_small prompt")
	f("song", `"lyrics_prompt":"la"`, "invalid_type prompt")
	f("song", `"prompt":7`, "invalid_type prompt")

	f("song", prompt+`,"lyrics_prompt":"la la la"`, "")
	f("song", prompt+`,"lyrics_prompt":""`, "")
	f("song", prompt+`,"lyrics_prompt":null`, "")
	f("song", prompt+`,"lyrics_prompt":"`+strings.Repeat("é", 30)+`"`, "")
	f("song", prompt+`,"lyrics_prompt":"`+strings.Repeat("é", 31)+`"`, "too_big lyrics_prompt")
	f("song", prompt+`,"lyrics_prompt":"  "`, "too_small lyrics_prompt")
	f("plain", prompt+`,"lyrics_prompt":"la"`, unsupported+"lyrics_prompt")
	f("plain", prompt+`,"lyrics_prompt":""`, "")
	f("sung", prompt, "invalid_type lyrics_prompt")
	f("sung", prompt+`,"lyrics_prompt":""`, "invalid_type lyrics_prompt")
	f("sung", prompt+`,"lyrics_prompt":"la"`, "")
	f("sung", prompt+`,"lyrics_optimizer":true`, unsupported+"lyrics_optimizer")
	f("song", prompt+`,"lyrics_optimizer":true`, "")
	f("song", prompt+`,"lyrics_optimizer":true,"lyrics_prompt":""`, "")
	f("song", prompt+`,"lyrics_optimizer":true,"lyrics_prompt":"la"`, wrong+"lyrics_prompt")
	f("song", prompt+`,"lyrics_optimizer":"true"`, "invalid_type lyrics_optimizer")
	f("plain", prompt+`,"lyrics_optimizer":true`, unsupported+"lyrics_optimizer")
	f("plain", prompt+`,"lyrics_optimizer":false`, "")
	f("writer", prompt, "invalid_type lyrics_prompt")
	f("writer", prompt+`,"lyrics_optimizer":true`, "")

	f("song", prompt+`,"duration_seconds":60`, "")
	f("song", prompt+`,"duration_seconds":"60"`, "")
	f("song", prompt+`,"duration_seconds":90`, "") // the options are proposals
	f("song", prompt+`,"duration_seconds":120`, "")
	f("song", prompt+`,"duration_seconds":59`, "too_small duration_seconds")
	f("song", prompt+`,"duration_seconds":"121"`, "too_big duration_seconds")
	f("song", prompt+`,"duration_seconds":0`, "too_small duration_seconds")
	f("song", prompt+`,"duration_seconds":-60`, "too_small duration_seconds")
	f("song", prompt+`,"duration_seconds":60.5`, "invalid_type duration_seconds")
	f("song", prompt+`,"duration_seconds":true`, "invalid_type duration_seconds")
	for _, text := range []string{"", "0", "sixty", "6e1", "60.0", "+60", " 60", "0x3c", "٦٠", "000"} {
		f("song", prompt+`,"duration_seconds":"`+text+`"`, wrong+"duration_seconds")
	}
	f("song", prompt+`,"duration_seconds":"9999999999"`, "too_big duration_seconds")
	f("song", prompt+`,"duration_seconds":1e300`, "invalid_type duration_seconds")
	f("choice", prompt+`,"duration_seconds":5`, "")
	f("choice", prompt+`,"duration_seconds":7`, "invalid_enum_value duration_seconds")
	f("plain", prompt+`,"duration_seconds":60`, unsupported+"duration_seconds")
	f("plain", prompt+`,"duration_seconds":null`, "")

	f("song", prompt+`,"force_instrumental":true`, "")
	f("plain", prompt+`,"force_instrumental":true`, unsupported+"force_instrumental")
	f("plain", prompt+`,"force_instrumental":false`, "")
	f("choice", prompt+`,"loop":true`, "")
	f("song", prompt+`,"loop":true`, unsupported+"loop")
	f("song", prompt+`,"loop":1`, "invalid_type loop")

	f("voice", prompt+`,"voice":"Roger"`, "")
	f("voice", prompt+`,"voice":"roger"`, "invalid_enum_value voice")
	f("voice", prompt+`,"voice":""`, "too_small voice")
	f("custom", prompt+`,"voice":"somebody"`, "")
	f("custom", prompt+`,"voice":"vv_123"`, "invalid_enum_value voice")
	f("custom", prompt+`,"voice":"`+strings.Repeat("x", 513)+`"`, "too_big voice")
	f("plain", prompt+`,"voice":"Aria"`, unsupported+"voice")

	f("voice", prompt+`,"language_code":"pt-BR"`, "")
	f("voice", prompt+`,"language_code":"en"`, "")
	f("voice", prompt+`,"language_code":"english language"`, wrong+"language_code")
	f("plain", prompt+`,"language_code":"en"`, unsupported+"language_code")

	f("voice", prompt+`,"speed":0.5`, "")
	f("voice", prompt+`,"speed":2`, "")
	f("voice", prompt+`,"speed":0.49`, "too_small speed")
	f("voice", prompt+`,"speed":2.01`, "too_big speed")
	f("voice", prompt+`,"speed":0.24`, "too_small speed")
	f("voice", prompt+`,"speed":4.1`, "too_big speed")
	f("voice", prompt+`,"speed":"1"`, "invalid_type speed")
	f("plain", prompt+`,"speed":1`, unsupported+"speed")

	f("plain", prompt+`,"colour":"blue"`, "unrecognized_keys colour")
	f("plain", prompt+`,"queue_id":"x"`, "unrecognized_keys queue_id")
	f("plain", prompt+`,"character_count":7`, "unrecognized_keys character_count")
}

// The model's settings complete an order that lacks members.
func TestOrdersAreCompletedByTheModel(t *testing.T) {
	t.Parallel()
	fast := 1.5
	f := func(keys, body string, want queue.Order) {
		t.Helper()
		want.Kind, want.Format = config.MusicKind.Name, "mp3"
		o, e := orderOf(t, musicModelOf(t, keys), body)
		if e != nil || !reflect.DeepEqual(*o, want) {
			t.Errorf("%s is %+v %+v, want %+v", body, o, e, want)
		}
	}
	f(songModel, `{"model":"m","prompt":"a quiet song"}`, queue.Order{Prompt: "a quiet song", Seconds: 60})
	f(songModel, `{"model":"m","prompt":"a \"quiet\" sóng\n","duration_seconds":"0090","lyrics_prompt":"l\u00e1"}`,
		queue.Order{Prompt: "a \"quiet\" sóng\n", Seconds: 90, Lyrics: "lá"})
	f(plainModel, `{"model":"m","prompt":"x"}`, queue.Order{Prompt: "x"})
	f(voiceModel, `{"model":"m","prompt":"x","language_code":"pt-BR"}`,
		queue.Order{Prompt: "x", Voice: "Aria", Speed: &fast, Language: "pt-BR"})
	f(choiceModel, `{"model":"m","prompt":"x","loop":true}`, queue.Order{Prompt: "x", Seconds: 5, Loop: true})
}

// A quote is the price at which the job is sold, for every kind of price.
func TestQuotesOfMusic(t *testing.T) {
	t.Parallel()
	f := func(keys, members, want string) {
		t.Helper()
		body, e := quoteOf(t, musicModelOf(t, keys), `{"model":"m"`+members+`}`)
		if e != nil || string(body) != want {
			t.Errorf("%s is quoted as %s %+v, want %s", members, body, e, want)
		}
	}
	const head = `"breakdown":{"currency":"USD","pricing":`
	f(songModel, "", `{"quote":0.69,`+head+`"durations","unit_price":0.69,"units":1,"duration_seconds":60,`+
		`"character_count":null}}`)
	f(songModel, `,"duration_seconds":"61"`, `{"quote":1.38,`+head+`"durations","unit_price":1.38,"units":1,`+
		`"duration_seconds":61,"character_count":null}}`)
	f(choiceModel, `,"duration_seconds":10,"character_count":7`, `{"quote":0.023,`+head+`"per_second",`+
		`"unit_price":0.0023,"units":10,"duration_seconds":10,"character_count":null}}`)
	f(voiceModel, `,"character_count":25`, `{"quote":0.002875,`+head+`"per_thousand_characters","unit_price":0.115,`+
		`"units":0.025,"duration_seconds":null,"character_count":25}}`)
	f(sungModel, `,"character_count":3000`, `{"quote":0.345,`+head+`"per_thousand_characters","unit_price":0.115,`+
		`"units":3,"duration_seconds":null,"character_count":3000}}`)
	f(plainModel, "", `{"quote":0.18,`+head+`"generation","unit_price":0.18,"units":1,"duration_seconds":null,`+
		`"character_count":null}}`)
	f(customModel, "", `{"quote":0,`+head+`"generation","unit_price":0,"units":1,"duration_seconds":null,`+
		`"character_count":null}}`)

	for keys, members := range map[string]string{
		voiceModel: "", sungModel: `,"character_count":3001`, plainModel: `,"duration_seconds":60`,
		songModel: `,"duration_seconds":121`, choiceModel: `,"character_count":0`,
	} {
		if body, e := quoteOf(t, musicModelOf(t, keys), `{"model":"m"`+members+`}`); e == nil || e.Status != 400 {
			t.Errorf("%s is quoted as %s", members, body)
		}
	}
}

// quoteOf is the answer to a request for a quote.
func quoteOf(t testing.TB, m *config.Music, body string) ([]byte, *routes.Error) {
	t.Helper()
	f, e := musicFormOf(t, m, musicQuoteBook, body)
	if e != nil {
		return nil, e
	}
	text, e := quoteMusic(nil, nil, f.form)
	if e != nil {
		return nil, e
	}
	if !json.Valid(text) {
		t.Errorf("%s is not JSON", text)
	}
	return text, nil
}
