package container

import (
	"encoding/binary"
	"fmt"
)

// wave is the fmt chunk of a WAV file.
type wave struct {
	tag      uint16
	channels uint64
	rate     uint64
	bytes    uint64 // of a second
	align    uint64 // of a block
	bits     uint64 // of a sample
	block    uint64 // samples of a block, where that is said
}

// Codecs of WAV files.
const (
	wavPCM      = 0x0001
	wavMSADPCM  = 0x0002
	wavFloat    = 0x0003
	wavALaw     = 0x0006
	wavMuLaw    = 0x0007
	wavIMAADPCM = 0x0011
	wavGSM      = 0x0031
	wavMPEG     = 0x0050
	wavMP3      = 0x0055
	wavG722     = 0x0065
	wavG722Too  = 0x028F
	wavExtended = 0xFFFE
	gsmBlock    = 65  // bytes
	gsmSamples  = 320 // of them
)

// readWAV reads RIFF and its 64-bit forms (EBU Tech 3306).
func readWAV(file []byte) (Info, error) {
	i := Info{Format: "wav"}
	var w *wave
	var facts, long uint64
	le := binary.LittleEndian
	// Chunks that lie about their size hide others from some, so that all that
	// follows the head of the sound may be sound.
	var sound []byte
	data, whole := uint64(0), true
	at := uint64(12)
	for n, chunks := uint64(len(file)), 0; at < n-8; chunks++ {
		if chunks == maxParts {
			return i, tooMany("chunks", maxParts)
		}
		id, size := string(file[at:at+4]), uint64(le.Uint32(file[at+4:]))
		body := file[at+8:]
		part := body[:min(uint64(len(body)), size)]
		switch id {
		case "ds64": // the sizes that do not fit into 32 bits
			if len(part) >= 24 {
				long, facts = le.Uint64(part[8:]), le.Uint64(part[16:])
			}
		case "fmt ":
			if w == nil {
				var err error
				if w, err = readFmt(part); err != nil {
					return i, err
				}
			}
		case "fact":
			if len(part) >= 4 {
				facts = max(facts, uint64(le.Uint32(part)))
			}
		case "data":
			if size == 1<<32-1 && long > 0 {
				size = long
			}
			if size == 0 && sound == nil || size >= 1<<32-1-64 {
				size = uint64(len(body)) // it was streamed, and the size was never filled in
			}
			if sound == nil {
				sound = body
			}
			data = add(data, min(size, uint64(len(body))))
		}
		at = add(add(at, 8), add(size, size&1))
		whole = whole && (id == "data" || at <= n+1)
	}
	switch {
	case w == nil:
		return i, broken("the WAV file has no fmt chunk before its sound")
	case sound == nil:
		return i, broken("the WAV file has no sound")
	}
	if err := w.measure(&i, sound, data, whole); err != nil {
		return i, err
	}
	if w.tag != wavPCM && w.tag != wavFloat {
		i.Says = max(i.Says, span(facts, w.rate))
	}
	return i, nil
}

// readFmt reads a fmt chunk.
func readFmt(b []byte) (*wave, error) {
	if len(b) < 14 {
		return nil, broken("the fmt chunk of the WAV file is too short")
	}
	le := binary.LittleEndian
	w := &wave{tag: le.Uint16(b), channels: uint64(le.Uint16(b[2:])), rate: uint64(le.Uint32(b[4:])),
		bytes: uint64(le.Uint32(b[8:])), align: uint64(le.Uint16(b[12:]))}
	if len(b) >= 16 {
		w.bits = uint64(le.Uint16(b[14:]))
	}
	if w.tag == wavExtended {
		if len(b) < 26 {
			return nil, broken("the fmt chunk of the WAV file is too short")
		}
		w.tag = le.Uint16(b[24:])
	} else if len(b) >= 20 {
		w.block = uint64(le.Uint16(b[18:]))
	}
	if w.channels == 0 || w.channels > 256 || w.rate == 0 {
		return nil, broken("the WAV file has %d channels at %d samples a second", w.channels, w.rate)
	}
	return w, nil
}

// measure says how long the sound is: data bytes of it if the chunks are trusted, all of
// sound if they are not.
func (w *wave) measure(i *Info, sound []byte, data uint64, whole bool) error {
	all := uint64(len(sound))
	if !whole {
		data = all
	}
	switch w.tag {
	case wavPCM, wavFloat, wavALaw, wavMuLaw:
		i.Codec = "pcm"
		if w.bits == 0 {
			w.bits = 8
		}
		if w.bits > 64 {
			return broken("the WAV file has %d bits a sample", w.bits)
		}
		// Readers go by the size of a sample or by that of a block.
		least := w.channels * ((w.bits + 7) / 8)
		i.Length = span(data/least, w.rate)
		if w.align > 0 {
			i.Says = span(data/w.align, w.rate)
			least = min(least, w.align)
		}
		i.Says = max(i.Says, span(data, w.bytes))
		if w.bytes == 0 {
			i.Says = 0
		}
		i.Most = span(all/least, w.rate)
	case wavMSADPCM, wavIMAADPCM:
		i.Codec = "adpcm"
		depth := min(max(w.bits, 2), 4)
		i.Most = span(all*8/depth/w.channels+1, w.rate)
		if w.align > 0 && w.block > 0 {
			i.Says = span(mul((data+w.align-1)/w.align, w.block), w.rate)
		}
		i.Length = min(i.Says, i.Most)
		if i.Says == 0 {
			i.Length = i.Most
		}
	case wavGSM:
		i.Codec = "gsm"
		i.Length = span(data/gsmBlock*gsmSamples, w.rate)
		i.Most = span((all/gsmBlock+1)*gsmSamples, w.rate)
	case wavG722, wavG722Too:
		i.Codec = "g722"
		i.Length, i.Most = span(data*2, w.rate), span(all*2, w.rate)
	case wavMP3, wavMPEG:
		first, _ := findFrames(sound, 0, readMPEG)
		if first < 0 {
			return broken("the WAV file has no frames of MPEG audio")
		}
		i.Codec = "mp3"
		i.Length, i.Most = walk(sound, first, readMPEG)
	default:
		return foreign("WAV", fmt.Sprintf("0x%04X", w.tag))
	}
	return nil
}
