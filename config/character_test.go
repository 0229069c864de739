package config

import (
	"strings"
	"testing"
	"time"

	"farebox/bench/servers"
)

const secretWords = "xyzzy-prompt-words"

func characterOf(text string) (*Character, error) {
	return parseCharacter("ada.yaml", []byte(text), time.Unix(1_790_000_000, 0), CharactersIn("x"))
}

const goodCharacter = "name: Ada\nmodelId: m\nprompt: |\n  " + secretWords + "\n"

func TestCharacterFileIsRead(t *testing.T) {
	c, err := characterOf(goodCharacter + "description: \"two\\nlines\"\nadult: true\npro: true\nwebEnabled: true\n" +
		"featured: true\ntags: [a b, ü]\ncategories: [x]\nshareUrl: https://example.com/a\ncreatedAt: 2026-01-02\n" +
		"author: me@example.com\n")
	if err != nil {
		t.Fatal(err)
	}
	if c.Slug != "ada" || c.Name != "Ada" || !c.Adult || !c.Pro || !c.WebEnabled || !c.Featured || len(c.Tags) != 2 ||
		strings.TrimSpace(c.Prompt.Reveal()) != secretWords || c.CreatedAt.Format(time.DateOnly) != "2026-01-02" ||
		c.UpdatedAt.Unix() != 1_790_000_000 || len(c.ID) != 36 {
		t.Errorf("%+v", c)
	}
	again, err := characterOf("slug: other\n" + goodCharacter)
	if err != nil || again.ID == c.ID || !again.CreatedAt.Equal(again.UpdatedAt) {
		t.Errorf("%+v %v", again, err)
	}
	// A reference would publish a secret of the operator.
	t.Setenv("HOME_OF_SECRETS", "hunter2")
	c, err = characterOf("name: ${HOME_OF_SECRETS}\ndescription: ${file:/etc/passwd}\nmodelId: $${x}\nprompt: ${nothing\n")
	if err != nil || c.Name != "${HOME_OF_SECRETS}" || c.Description != "${file:/etc/passwd}" || c.ModelID != "$${x}" ||
		c.Prompt != "${nothing" {
		t.Errorf("%+v %v", c, err)
	}
}

// "The log said what was wrong with the file, and with it what the file should keep."
func TestWrongCharacterFilesSayWhereAndNothingOfThePrompt(t *testing.T) {
	for _, one := range [][2]string{
		{"", "1:1: the file is empty"},
		{"- a", "a list stands here"},
		{"name: Ada\n", "prompt: a character needs a prompt"},
		{"name: Ada\nprompt: x", "modelId: a character needs a model"},
		{goodCharacter + "prompts: x\n", "5:1: characters do not have this key; did you mean prompt?"},
		{
			goodCharacter + secretWords + ": x\n",
			"5:1: characters do not have this key; expected one of adult",
		},
		{"name: Ada\nprompt: |\n" + secretWords + ": is\n", "3:1: characters do not have this key"},
		{"name: Ada\nprompt: |\n" + secretWords + "\n", "not valid YAML"},
		{"name: Ada\nprompt: \"" + secretWords + "\n", "not valid YAML"},
		{"name: Ada\nprompt: [" + secretWords + "]\n", "2:9: prompt: a list stands here; expected text"},
		{"name: Ada\nprompt: {" + secretWords + ": 1}\n", "2:9: prompt: a group of keys stands here; expected text"},
		{"name: Ada\nprompt: *" + secretWords + "\n", "an alias is used before its anchor"},
		{"name: Ada\nprompt: !" + secretWords + " x\n", "tags are not used here"},
		{goodCharacter + "? \"" + secretWords + "\"\n: x\n", "characters do not have this key"},
		{goodCharacter + "name: " + secretWords + "\n", "written twice; the first is on line 1"},
		{goodCharacter + strings.Repeat("\"x "+secretWords+"\": 1\n", 2), "written twice"},
		{goodCharacter + "<<: " + secretWords + "\n", "<< merges text"},
		{goodCharacter + "adult: perhaps\n", "5:8: adult: \"perhaps\" is not a switch"},
		{goodCharacter + "tags: [a, A]\n", "tags[1]: \"A\" is listed already"},
		{goodCharacter + "tags: [\"#a\"]\n", "tags[0]: \"#a\" cannot be asked for"},
		{goodCharacter + "categories: [\"a,b\"]\n", "categories[0]: \"a,b\" cannot be asked for"},
		{goodCharacter + "slug: Ada\n", "slug: \"Ada\" cannot be the name"},
		{goodCharacter + "slug: ../etc\n", "slug: \"../etc\" cannot be the name"},
		{goodCharacter + "slug: -a\n", "slug: \"-a\" cannot be the name"},
		{goodCharacter + "shareUrl: javascript:alert(1)\n", "shareUrl: "},
		{goodCharacter + "shareUrl: https://u:p@host/\n", "shareUrl: "},
		{
			goodCharacter + "description: " + strings.Repeat("ä", 4001) + "\n",
			"4001 characters; expected at most 4000",
		},
		{goodCharacter + "author: \"a\\nb\"\n", "author: the text has a line break"},
		{goodCharacter + "createdAt: yesterday\n", "createdAt: \"yesterday\" is not a date"},
		{
			goodCharacter + "createdAt: 2026-01-02\nupdatedAt: 2026-01-01\n",
			"updatedAt: \"2026-01-01\" is before createdAt",
		},
		{"name: Ada\nmodelId: m\nprompt: |\n  " + strings.Repeat(secretWords, 2000) + "\n", "expected at most 32KB"},
		{"name: Ada\nmodelId: m\nprompt: a\x01" + secretWords + "\n", "control character 0x01"},
		{strings.Repeat("#", maxCharacterFile+1), "larger than 1MB"},
		{goodCharacter + "tags: " + strings.Repeat("[", 100), "nested deeper"},
	} {
		text, want := one[0], one[1]
		_, err := characterOf(text)
		p, ok := err.(*Problems)
		switch {
		case !ok:
			t.Errorf("%.80q is answered %v", text, err)
		case !strings.Contains(err.Error(), want):
			t.Errorf("%.80q is answered\n%v\nexpected %s", text, err, want)
		case strings.Contains(err.Error(), secretWords):
			t.Errorf("%.80q: the error quotes the prompt:\n%v", text, err)
		}
		for i := range p.List {
			if one := &p.List[i]; one.Line < 1 || one.Column < 1 || one.Excerpt != "" {
				t.Errorf("%.80q: %+v", text, one)
			}
		}
	}
}

// Malicious files are refused in moderate time.
func TestHostileCharacterFilesAreRefusedInTime(t *testing.T) {
	servers.NoRace(t)
	bomb := "a: &a [x, x, x, x, x, x, x, x, x]\n"
	for c := 'b'; c < 'z'; c++ {
		bomb += string(c) + ": &" + string(c) + " [" + strings.Repeat("*"+string(c-1)+", ", 8) + "]\n"
	}
	for name, text := range map[string]string{
		"bomb": bomb, "bomb of tags": bomb + "tags: *y\n" + goodCharacter, "brackets": strings.Repeat("[", 100_000),
		"keys": strings.Repeat("a: ", 100_000), "alias of itself": "tags: &a [*a]\n" + goodCharacter,
		"long line": "name: " + strings.Repeat("x", maxCharacterFile-10),
	} {
		began := time.Now()
		if _, err := characterOf(text); err == nil || time.Since(began) > 5*time.Second {
			t.Errorf("%s: %v after %s", name, err, time.Since(began))
		} else if len(err.Error()) > 100<<10 {
			t.Errorf("%s: %d bytes of mistakes", name, len(err.Error()))
		}
	}
}

func FuzzCharacter(f *testing.F) {
	f.Add([]byte(goodCharacter))
	f.Add([]byte("name: Ada\nprompt: |\n" + secretWords + "\ntags: [a, *b]\n"))
	f.Add([]byte("? [a]\n: !x " + secretWords + "\n<<: *a\n"))
	f.Add([]byte("prompt: \"" + secretWords + "\n slug: &a [*a]"))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := parseCharacter("ada.yaml", data, time.Unix(1, 0), CharactersIn("x"))
		if (c == nil) == (err == nil) {
			t.Fatalf("character %v and error %v", c != nil, err)
		}
		if err != nil {
			p, ok := err.(*Problems)
			if !ok || len(p.List) == 0 {
				t.Fatalf("no problems: %v", err)
			}
			for _, one := range p.List {
				if one.Line < 1 || one.Column < 1 || one.Message == "" || one.Excerpt != "" {
					t.Fatalf("%+v", one)
				}
			}
			return
		}
		if !ValidSlug(c.Slug) || strings.TrimSpace(string(c.Prompt)) == "" || c.UpdatedAt.Before(c.CreatedAt) {
			t.Fatalf("%+v", c)
		}
	})
}
