"""POST /audio/speech as the openai package sees it."""

import os
import unittest

import openai

INPUT = "Forty characters are two seconds of sound"[:40]


def path(name):
    return os.path.join(os.environ["FAREBOX_DIR"], name)


class Speech(unittest.TestCase):
    def setUp(self):
        self.client = openai.OpenAI(
            base_url=os.environ["FAREBOX_URL"], api_key=os.environ["FAREBOX_KEY"], max_retries=0, timeout=60
        )
        self.addCleanup(self.client.close)

    def test_comes_whole(self):
        answer = self.client.audio.speech.create(model="tts-1", voice="alloy", input=INPUT, response_format="wav")
        answer.write_to_file(path("python.wav"))

    def test_is_streamed_to_a_file(self):
        with self.client.audio.speech.with_streaming_response.create(
            model="tts-1", voice="alloy", input=INPUT, instructions="calmly", response_format="opus"
        ) as answer:
            self.assertEqual(answer.headers["content-type"], "audio/opus")
            answer.stream_to_file(path("python.opus"))

    def test_is_refused(self):
        with self.assertRaisesRegex(openai.BadRequestError, "has no voice nobody"):
            self.client.audio.speech.create(model="tts-1", voice="nobody", input=INPUT)


if __name__ == "__main__":
    unittest.main()
