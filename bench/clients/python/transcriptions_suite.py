"""POST /audio/transcriptions as the openai package sees it."""

import os
import unittest

import openai


class Transcriptions(unittest.TestCase):
    def setUp(self):
        self.client = openai.OpenAI(
            base_url=os.environ["FAREBOX_URL"], api_key=os.environ["FAREBOX_KEY"], max_retries=0, timeout=60
        )
        self.addCleanup(self.client.close)

    def transcribe(self, **more):
        with open(os.environ["FAREBOX_SOUND"], "rb") as file:
            return self.client.audio.transcriptions.create(model="whisper-1", file=file, **more)

    def test_json(self):
        answer = self.transcribe(language="en", prompt="Numbers.", temperature=0.2)
        self.assertRegex(answer.text, "^word0 word1 ")
        self.assertEqual((answer.usage.type, answer.usage.seconds), ("duration", 5))

    def test_verbose_json(self):
        answer = self.transcribe(response_format="verbose_json", timestamp_granularities=["word", "segment"])
        self.assertEqual((answer.duration, answer.language, len(answer.segments)), (5, "english", 2))
        self.assertEqual((answer.words[1].word, answer.words[1].start), ("word1", 0.5))
        self.assertEqual(answer.segments[1].avg_logprob, -0.25)

    def test_text_and_subtitles(self):
        self.assertRegex(self.transcribe(response_format="text"), "^word0 word1 ")
        self.assertRegex(self.transcribe(response_format="srt"), "^1\n00:00:00,000 --> 00:00:03,900\nword0 ")
        self.assertRegex(self.transcribe(response_format="vtt"), "^WEBVTT\n\n00:00:00.000 --> 00:00:03.900\nword0 ")

    def test_stream(self):
        text, done = "", None
        for event in self.transcribe(stream=True):
            if event.type == "transcript.text.delta":
                text += event.delta
            elif event.type == "transcript.text.done":
                done = event.text
        self.assertRegex(text, "^word0 word1 ")
        self.assertEqual(text, done)

    def test_refused(self):
        with self.assertRaisesRegex(openai.BadRequestError, "expected one of WAV"):
            self.client.audio.transcriptions.create(model="whisper-1", file=("speech.mp3", b"no sound"))


if __name__ == "__main__":
    unittest.main()
