package audio

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"sync/atomic"
	"testing"
	"time"

	"farebox/bench/upstream/sound"
)

// half is the length of the hidden sound, and poorSeconds the seconds that the poor
// account can pay for.
const (
	half        = 30 * time.Second
	poorSeconds = 10
)

// hostile is a file that lies about its length, or that others read in another way.
type hostile struct {
	name    string
	file    []byte
	hides   bool  // it holds more than the poor one can pay
	seconds int64 // that it is charged; 0: it is refused
}

// "A header of one second bought me an hour." Whatever a container says, the price of its
// bytes is held before the upstream gets the file. An account that cannot pay for them is
// refused; others pay for the real length.
func TestContainersThatLie(t *testing.T) {
	t.Parallel()
	e := startEar(t, "10")
	poor := e.Key(e.NewAccount("poor", fmt.Sprint(float64(poorSeconds*second)/1e9)))
	var worth atomic.Int64
	t.Run("files", func(t *testing.T) {
		for _, c := range hostiles(t) {
			t.Run(c.name, func(t *testing.T) {
				t.Parallel()
				body, contentType := upload(c.file)
				if c.hides {
					if status, _, answer := e.sendAs(t.Context(), poor, body, contentType); status != 402 {
						t.Errorf("the hidden sound is not held: %d %.300s", status, answer)
					}
				}
				status, _, answer := e.send(t.Context(), body, contentType)
				if c.seconds == 0 {
					if status < 400 || status > 422 || status == 402 {
						t.Errorf("it is not refused: %d %.300s", status, answer)
					}
					return
				}
				if status != 200 {
					t.Errorf("with money: %d %.300s", status, answer)
					return
				}
				want := fmt.Sprintf(`"usage":{"type":"duration","seconds":%d}`, c.seconds)
				if !bytes.Contains([]byte(answer), []byte(want)) {
					t.Errorf("want %s: %.300s", want, answer[max(0, len(answer)-300):])
				}
				worth.Add(c.seconds)
			})
		}
	})
	e.costs("all of them", 0, worth.Load())
	if a := e.Settled()["poor"]; a.Spent != 0 || a.Held != 0 {
		t.Errorf("a refused client paid %s", a.Spent)
	}
}

func hostiles(t *testing.T) []hostile {
	made := recordings(t)
	le, be := binary.LittleEndian, binary.BigEndian
	wav := func(said uint32) []byte {
		b := sound.Bytes("wav", half)
		le.PutUint32(b[40:], said)
		return b
	}
	put := func(b []byte, at int, v uint32) []byte {
		be.PutUint32(b[at:], v)
		return b
	}
	twice := func(b []byte) []byte { return append(bytes.Clone(b), b...) }
	list := []hostile{
		{"a WAV of a second", wav(2 * sound.Rate), true, 30},
		{"a WAV of nothing", wav(0), true, 30},
		{"a WAV of days", wav(math.MaxUint32), true, 30},
		{"a WAV within a WAV", append(sound.Bytes("wav", time.Second), sound.Bytes("wav", half)...), true, 1},
		{"a WAV cut off", sound.Bytes("wav", 2*half)[:44+30*2*sound.Rate], true, 30},
		{"a WAV at a tenth of its rate", func() []byte {
			b := sound.Bytes("wav", half)
			le.PutUint32(b[24:], 10*sound.Rate) // it plays in three seconds
			le.PutUint32(b[28:], 2*sound.Rate)
			return b
		}(), true, 30},
		{"FLAC of a sample", put(sound.Bytes("flac", half), 22, 1), true, 30},
		{"FLAC cut off, which says that it is twice as long", sound.Bytes("flac", 2*half)[:30*2*sound.Rate], true, 60},
		{"FLAC behind FLAC", twice(sound.Bytes("flac", half/2)), true, 30},
		{"MP3 behind MP3", twice(sound.Bytes("mp3", half/2)), true, 30},
		{"MP3 behind AAC", append(sound.Bytes("aac", time.Second), sound.Bytes("mp3", half)...), true, 1},
		{"AAC behind AAC", twice(sound.Bytes("aac", half/2)), true, 30},
		{"Ogg behind Ogg", twice(sound.Bytes("opus", half/2)), true, 30},
		{"Ogg of a sample", oneSample(sound.Bytes("opus", half)), true, 30},
		{"Ogg of 10,000 streams", manyStreams(), false, 0},
		{"Ogg with a stream other than sound", append([]byte("OggS\x00\x02"), make([]byte, 40)...), false, 0},
		{"WebM of no length", func() []byte {
			b := bytes.Clone(made["a.webm"])
			at := bytes.Index(b, []byte{0x44, 0x89, 0x88}) + 3
			be.PutUint64(b[at:], math.Float64bits(1))
			return b
		}(), false, 4},
		{"a page", []byte("<!doctype html><p>RIFF OggS fLaC</p>"), false, 0},
	}
	m4a := bytes.Clone(made["a.m4a"])
	for _, kind := range []string{"mvhd", "mdhd"} {
		put(m4a, bytes.Index(m4a, []byte(kind))+4+16, 1)
	}
	list = append(list, hostile{"MP4 of a tick", m4a, false, 4})
	long := bytes.Clone(made["a.m4a"])
	put(long, bytes.Index(long, []byte("mdhd"))+4+16, 1<<31)
	list = append(list, hostile{"MP4 of days", long, true, 4})
	mp3 := bytes.Clone(made["a.mp3"])
	xing := max(bytes.Index(mp3, []byte("Info")), bytes.Index(mp3, []byte("Xing")))
	list = append(list, hostile{"MP3 of a frame", put(mp3, xing+8, 1), false, 4})
	return list
}

// oneSample has every page of an Ogg say that it ends with the first sample.
func oneSample(b []byte) []byte {
	for at := 0; ; at += 4 {
		next := bytes.Index(b[at:], []byte("OggS"))
		if next < 0 {
			return b
		}
		at += next
		binary.LittleEndian.PutUint64(b[at+6:], 1)
	}
}

func manyStreams() (b []byte) {
	for n := range uint32(10_000) {
		page := append([]byte("OggS\x00\x02"), make([]byte, 21)...)
		binary.LittleEndian.PutUint32(page[14:], n)
		page[26] = 1
		b = append(append(b, page...), 19)
		b = append(b, "OpusHead\x01\x01\x00\x00\x80\xbb\x00\x00\x00\x00\x00"...)
	}
	return b
}
