package config

// soundKinds are the types of models of sound. They share a tier (addendum 3.6).
var soundKinds = []kind{
	{"tts", "audio", Rate{RPM: 60}, newSpeech},
	{"asr", "audio", Rate{RPM: 60}, newTranscription},
}
