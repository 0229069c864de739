package queue_test

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	"farebox/bench/upstream/film"
	"farebox/bench/upstream/sound"
	"farebox/config"
	"farebox/providers/queue"
)

// An order is made once, and its result arrives unchanged; the server that keeps it does
// not see our key.
func TestAnOrderIsMadeOnce(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, g *rig, d *door, kind *config.JobKind) {
		g.target(d, kind, nil)
		job, s := g.submit(order(kind, "polls=2"))
		at := s.Done
		if at == nil {
			at = g.wait(job)
		}
		if at.Failed != nil || !at.Done || at.Progress != 100 {
			t.Fatalf("its status is %+v", at)
		}
		body, kindOf := at.Body, at.Type
		if body == nil {
			var err error
			if body, kindOf, err = g.Fetch(context.Background(), job, at.Result); err != nil {
				t.Fatal(err)
			}
		}
		want, typ := sound.Bytes("mp3", 4*time.Second), "audio/mpeg"
		if kind == config.VideoKind {
			want, typ = film.MP4(film.Film{Length: 2 * time.Second}), "video/mp4"
		}
		if got := read(t, body); !bytes.Equal(got, want) || kindOf != typ {
			t.Errorf("%d bytes of %q came; expected %d of %q", len(got), kindOf, len(want), typ)
		}
		all := g.sim.Orders()
		if len(all) != 1 || !all[0].Made || !all[0].Charged || all[0].Leaked || all[0].Fetched != 1 {
			t.Errorf("the upstream has %+v", all)
		}
		if !strings.Contains(all[0].Prompt, "a song of the sea") {
			t.Error(all[0].Prompt)
		}
	})
}

// A result that the upstream itself keeps can be had twice: the first may be lost on the
// way.
func TestAResultAtTheUpstreamIsFetchedAgain(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	g.target(&doors[2], config.MusicKind, nil)
	job, _ := g.submit(order(config.MusicKind, "polls=0"))
	at := g.wait(job)
	if at.Body == nil {
		t.Fatal("the answer did not bring it")
	}
	at.Body.Close()
	body, kind, err := g.Fetch(context.Background(), job, at.Result)
	if err != nil || kind != "audio/mpeg" {
		t.Fatal(kind, err)
	}
	if got := read(t, body); !bytes.Equal(got, sound.Bytes("mp3", 4*time.Second)) {
		t.Error(len(got))
	}
}

// A body goes on when the context of the poll that brought it has ended: the polling
// client is not its keeper.
func TestABodyOutlivesTheQuestionForIt(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	g.target(&doors[3], config.MusicKind, nil)
	ctx, cancel := context.WithCancel(context.Background())
	s, err := g.Submit(ctx, task(order(config.MusicKind, "chunk=1000 gap_ms=1")))
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	if got := read(t, s.Done.Body); !bytes.Equal(got, sound.Bytes("mp3", 4*time.Second)) {
		t.Error(len(got))
	}
}

// A data URL in the answer needs no link, and a result without a type gets that of its first bytes.
func TestResultsWithoutLinkOrType(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"inline", "untyped"} {
		each(t, func(t *testing.T, g *rig, d *door, kind *config.JobKind) {
			if d.name == "elevenlabs" || d.name == "native" && how == "inline" {
				t.Skip("its answers have no links")
			}
			g.target(d, kind, nil)
			job, _ := g.submit(order(kind, "polls=0 job="+how))
			at := g.wait(job)
			if at.Failed != nil {
				t.Fatal(at.Failed)
			}
			body, typ := at.Body, at.Type
			if body == nil || d.name == "native" {
				if body != nil {
					body.Close()
				}
				var err error
				if body, typ, err = g.Fetch(context.Background(), job, at.Result); err != nil {
					t.Fatal(err)
				}
			}
			if len(read(t, body)) < 1000 || typ != map[*config.JobKind]string{config.MusicKind: "audio/mpeg",
				config.VideoKind: "video/mp4"}[kind] {
				t.Error(typ)
			}
		})
	}
}

// An upstream that takes an address for reports gets ours.
func TestUpstreamsGetTheAddressForReports(t *testing.T) {
	t.Parallel()
	for i := range doors[:2] {
		g := newRig(t, func(o *queue.Options) {
			o.Hook = func(id string) string { return "http://127.0.0.1:1/api/v1/jobs/hook/" + id + "?a=b&c" }
		})
		g.target(&doors[i], config.MusicKind, nil)
		g.submit(order(config.MusicKind, "think_ms=100000"))
		found := false
		for _, r := range g.last() {
			found = found || strings.Contains(r.Head+string(r.Body), "jobs")
		}
		if !found {
			t.Error(doors[i].name)
		}
	}
}

// Options map an order's members to an app's names.
func TestAppsAreAskedInTheirOwnTerms(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	to := g.target(&doors[0], config.MusicKind, map[string]string{"seconds": "music_length_ms:ms", "lyrics": "lyrics",
		"format": "audio_setting.format", "extra": `{"steps": 50, "audio_setting": {"rate": 44100}}`, "loop": ""})
	o := order(config.MusicKind, "polls=0")
	o.Lyrics, o.Format, o.Loop = "la la", "mp3", true
	if no := g.Reach("m", o); no != nil {
		t.Fatal(no)
	}
	job, _ := g.submit(o)
	sent := string(g.last()[0].Body)
	want := `{"audio_setting":{"format":"mp3","rate":44100},"lyrics":"la la","music_length_ms":4000,` +
		`"prompt":"a song of the sea [[sim polls=0]]","steps":50}`
	if sent != want {
		t.Errorf("sent %s\nwant %s", sent, want)
	}
	if at := g.wait(job); at.Failed != nil || g.sim.Orders()[0].Seconds != 4 {
		t.Error(at.Failed, g.sim.Orders())
	}
	to.Options = map[string]string{"output": "nothing.here"}
	job, _ = g.submit(order(config.MusicKind, "polls=0"))
	if at := g.wait(job); at.Failed == nil {
		t.Error("a result was found outside the operator's path")
	}
	// Features without a mapping at the target cannot be ordered there.
	if no := g.Reach("m", &queue.Order{Kind: config.VideoKind.Name, Keyframes: []queue.Frame{{Image: "x"}}}); no == nil ||
		no.Status != 400 {
		t.Error(no)
	}
}
